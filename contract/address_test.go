package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestAddresses(t *testing.T) {
	one := []contract.Address{{Type: "InternalIP", Address: "10.0.0.1"}}
	const at = "status.addresses"
	for name, c := range map[string]struct {
		addresses string
		want      []contract.Address
		found     bool
		err       string
	}{
		"an empty list is found": {addresses: `[]`, found: true},
		"an address":             {addresses: `[{"type":"InternalIP","address":"10.0.0.1"}]`, want: one, found: true},
		"an unknown type": {addresses: `[{"type":"Pager","address":"1"}]`, want: []contract.Address{{Type: "Pager", Address: "1"}},
			found: true},
		"more members do not matter":     {addresses: `[{"type":"InternalIP","address":"10.0.0.1","x":1}]`, want: one, found: true},
		"an address without a type":      {addresses: `[{"address":"10.0.0.1"}]`, err: at + ".0.type: want string, found nothing"},
		"an address without the address": {addresses: `[{"type":"Hostname"}]`, err: at + ".0.address: want string, found nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parseJSON(t, `{"status":{"addresses":`+c.addresses+`}}`)
			got, found, err := contract.At[[]contract.Address]("status", "addresses").Get(obj)
			require.Equal(t, c.want, got)
			require.Equal(t, c.found, found)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.err)
			require.ErrorIs(t, err, contract.ErrWrongType)
		})
	}
}

func TestAddresses_Absent(t *testing.T) {
	for _, f := range []contract.Field[[]contract.Address]{contract.At[[]contract.Address]("status", "addresses"), {}} {
		got, found, err := f.Get(parseJSON(t, `{"status":{}}`))
		require.NoError(t, err)
		require.False(t, found)
		require.Empty(t, got)
	}
	require.Equal(t, "status.addresses", contract.At[[]contract.Address]("status", "addresses").Path().String())
}
