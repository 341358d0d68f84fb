package contract_test

import (
	"testing"

	"github.com/machinist-dev/machinist/contract"
)

func TestIsVersion(t *testing.T) {
	for _, tc := range []struct {
		reported, wanted string
		want             bool
	}{
		{"v1.36.3", "v1.36.3", true},
		{"1.36.3", "v1.36.3", true},
		{"v1.36.3", "1.36.3", true},
		{" v1.36.3\n", "v1.36.3", true},
		{"v1.36.3-eks-cb19647", "v1.36.3", true},
		{"v1.36.3-gke.1021000", "v1.36.3", true},
		{"v1.36.3+k3s1", "v1.36.3", true},
		{"v1.36.3+rke2r1", "1.36.3", true},
		{"v1.33.1-k0s.0", "v1.33.1", true},
		{"v1.36.3+k3s1", "v1.36.3+k3s1", true},
		{"v1.36.3-eks-cb19647", "v1.36.3-eks-cb19647", true},
		{"v1.36.3", "v1.36", true},
		{"v1.36.0", "1.36", true},
		{"v1.36.3-eks-cb19647", "v1.36", true},
		{"v1.36.12+k3s1", "v1.36", true},
		{"v1.36", "v1.36", true},
		{"v1.36.3", "", true},
		{"", "", true},

		{"v1.36.2", "v1.36.3", false},
		{"v1.36.30", "v1.36.3", false},
		{"v1.36.3", "v1.36.30", false},
		{"v1.37.3", "v1.36.3", false},
		{"v1.360.3", "v1.36", false},
		{"v1.3", "v1.36", false},
		{"v1.36.3+k3s2", "v1.36.3+k3s1", false},
		{"v1.36.3+k3s10", "v1.36.3+k3s1", false},
		{"v1.36.3", "v1.36.3+k3s1", false},
		{"v1.36.0-rc.1", "v1.36.0", false},
		{"v1.36.0-alpha.2", "v1.36", false},
		{"v1.36.0-beta.0+k3s1", "v1.36", false},
		{"v1.36.", "v1.36", false},
		{"v1.36.x", "v1.36", false},
		{"", "v1.36.3", false},
	} {
		if got := contract.IsVersion(tc.reported, tc.wanted); got != tc.want {
			t.Errorf("IsVersion(%q, %q) = %v", tc.reported, tc.wanted, got)
		}
	}
}
