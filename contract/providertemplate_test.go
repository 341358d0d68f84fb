package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

const fullTemplate = `{
	"kind":"TestMachineTemplate","metadata":{"namespace":"default","name":"t1","labels":{"of":"the template itself"}},
	"spec":{"template":{"metadata":{"labels":{"a":"b"},"annotations":{"c":""}},"spec":{"size":"large"}}},
	"status":{"capacity":{"cpu":4,"memory":"16Gi","nvidia.com/gpu":"1"},"nodeInfo":{"architecture":"arm64","operatingSystem":"linux"}}
}`

func TestTextMapField_ReturnsACopy(t *testing.T) {
	obj := parseJSON(t, `{"labels":{"a":"b"}}`)
	f := contract.At[map[string]string]("labels")
	got, _, err := f.Get(obj)
	require.NoError(t, err)
	got["a"] = "changed"
	require.Equal(t, parseJSON(t, `{"labels":{"a":"b"}}`), obj)
	_, _, err = f.Get(parseJSON(t, `{"labels":"x"}`))
	require.EqualError(t, err, "labels: want object, found string")
}
