package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

func TestIntOrString(t *testing.T) {
	f := contract.At[intstr.IntOrString]("spec", "n")
	for text, want := range map[string]contract.Opt[intstr.IntOrString]{
		`{}`:                       {},
		`{"spec":{"n":0}}`:         contract.Some(intstr.FromInt32(0)),
		`{"spec":{"n":-7}}`:        contract.Some(intstr.FromInt32(-7)),
		`{"spec":{"n":"25%"}}`:     contract.Some(intstr.FromString("25%")),
		`{"spec":{"n":"5"}}`:       contract.Some(intstr.FromString("5")),
		`{"spec":{"n":"a lot"}}`:   contract.Some(intstr.FromString("a lot")),
		`{"spec":{"n":""}}`:        contract.Some(intstr.FromString("")),
		`{"other":{"n":"unread"}}`: {},
	} {
		value, found, err := f.Get(parseJSON(t, text))
		require.NoError(t, err)
		require.Equal(t, want.Found(), found, text)
		require.Equal(t, want.Or(intstr.IntOrString{}), value, text)
	}
	obj := parseJSON(t, `{"spec":{"n":"25%"}}`)
	allocations(t, "reading an int or string", 0, func() { _, _, _ = f.Get(obj) })
}
