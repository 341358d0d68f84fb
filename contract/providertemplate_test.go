package contract_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
)

const fullTemplate = `{
	"kind":"TestMachineTemplate","metadata":{"namespace":"default","name":"t1","labels":{"of":"the template itself"}},
	"spec":{"template":{"metadata":{"labels":{"a":"b"},"annotations":{"c":""}},"spec":{"size":"large"}}},
	"status":{"capacity":{"cpu":4,"memory":"16Gi","nvidia.com/gpu":"1"},"nodeInfo":{"architecture":"arm64","operatingSystem":"linux"}}
}`

func TestQuantitiesField_ReadsWhatSchemasAllow(t *testing.T) {
	f := contract.At[corev1.ResourceList]("capacity")
	for capacity, want := range map[string]string{
		`{"cpu":"500m"}`: "500m", `{"cpu":2}`: "2", `{"cpu":"0.5"}`: "500m", `{"cpu":"1e3"}`: "1e3", `{"cpu":"-1"}`: "-1", `{"cpu":0}`: "0",
	} {
		got, found, err := f.Get(parseJSON(t, `{"capacity":`+capacity+`}`))
		require.True(t, found)
		require.NoError(t, err)
		cpu := got[corev1.ResourceCPU]
		require.Equal(t, want, cpu.String(), capacity)
	}
	for capacity, want := range map[string]string{
		`[]`:                        "capacity: want object, found list",
		`{"cpu":1.5}`:               "capacity.cpu: want quantity, found number",
		`{"cpu":null}`:              "capacity.cpu: want quantity, found null",
		`{"cpu":true}`:              "capacity.cpu: want quantity, found bool",
		`{"cpu":""}`:                "capacity.cpu: want quantity, found unreadable text",
		`{"b":{},"a":"many","c":1}`: "capacity.a: want quantity, found unreadable text",
	} {
		_, _, err := f.Get(parseJSON(t, `{"capacity":`+capacity+`}`))
		require.ErrorIs(t, err, contract.ErrWrongType)
		require.EqualError(t, err, want)
	}
}

// The parser of quantities takes hours for some texts that the usual schema allows.
func TestQuantitiesField_ReadsNothingThatTakesForEver(t *testing.T) {
	for _, text := range []string{"1e-2000000000", "1E-2147483648", "1e2000000000", "1e+99999", "1" + string(make([]byte, 1<<20))} {
		done := make(chan error, 1)
		go func() {
			_, _, err := contract.At[corev1.ResourceList]("capacity").Get(map[string]any{"capacity": map[string]any{"cpu": text}})
			done <- err
		}()
		select {
		case err := <-done:
			require.EqualError(t, err, "capacity.cpu: want quantity, found unreadable text")
		case <-time.After(time.Minute):
			t.Fatalf("%.20q is still being parsed", text)
		}
	}
}

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
