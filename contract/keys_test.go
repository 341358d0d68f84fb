package contract_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/machinist-dev/machinist/contract"
)

// The hashes are what Cluster API writes, or were computed elsewhere.
func TestLabelValue_IsTheNameOrAHashOfIt(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                         {"", ""},
		"a valid value":                   {"workers-1.2_A", "workers-1.2_A"},
		"63 characters":                   {strings.Repeat("x", 63), strings.Repeat("x", 63)},
		"64 characters":                   {strings.Repeat("x", 64), "hash_0ZsaxQ_z"},
		"the long name in Cluster API":    {strings.Repeat("machineSetName", 12), "hash_FR_ghQ_z"},
		"a character that is not allowed": {"a/b", "hash_Oo51wQ_z"},
		"a space":                         {"a b", "hash_EKP58g_z"},
		"a dash in front":                 {"-a", "hash_ZM2IGw_z"},
		"more than ASCII":                 {"über", "hash_e6Pkzw_z"},
	} {
		t.Run(name, func(t *testing.T) {
			got := contract.LabelValue(c.in)
			require.Equal(t, c.want, got)
			require.Equal(t, got, contract.LabelValue(got), "a value stands for itself")
		})
	}
}

func FuzzLabelValue(f *testing.F) {
	f.Add("")
	f.Add("_")
	f.Add(strings.Repeat("a-", 40))
	f.Fuzz(func(t *testing.T, name string) {
		got := contract.LabelValue(name)
		require.Empty(t, content.IsLabelValue(got))
		if len(content.IsLabelValue(name)) == 0 {
			require.Equal(t, name, got)
		}
	})
}
