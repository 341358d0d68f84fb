package noderef

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestTheIndexKeepsCanonicalKeysOnBothSides(t *testing.T) {
	x := NewIndex(Rules{Canonical: strings.ToLower})
	upper := newNode("a", "u1", "test://ONE")
	x.Add(upper)
	require.Equal(t, []*corev1.Node{upper}, x.ByProviderID("test://one"))
	x.Add(newNode("a", "u1", "test://Two"))
	require.Empty(t, x.ByProviderID("test://one"))
	x.Add(newNode("a", "u1", "test://tWO")) // another spelling, the same key
	require.Len(t, x.ByProviderID("test://two"), 1)
	x.Remove("a")
	require.Empty(t, x.ByProviderID("test://two"))
}

func TestInvalidIDsAreNeverTheSame(t *testing.T) {
	for _, rules := range []Rules{{}, {Canonical: strings.ToLower}, {Canonical: func(string) string { return "one key" }}} {
		none := []string{"", "aws://", "aws:///", "vsphere://", "openstack:///"}
		for _, a := range none {
			require.Empty(t, rules.Key(a))
			for _, b := range append(none, "test://1") {
				require.False(t, rules.Same(a, b), "%q and %q", a, b)
			}
		}
		require.True(t, rules.Same("test://1", "test://1"))
	}
	require.False(t, Rules{}.Same("test://a", "test://A"), "without a Canonical IDs are opaque")
	require.True(t, Rules{Canonical: strings.ToLower}.Same("test://a", "test://A"))
}
