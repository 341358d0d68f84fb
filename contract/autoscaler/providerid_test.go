package autoscaler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract/autoscaler"
)

func TestNormalizeProviderID_KeepsTheLastSegment(t *testing.T) {
	const scaleSet = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/workers/virtualMachines/0"
	tests := map[string]struct{ id, want string }{
		"an instance of AWS":                {id: "aws:///us-east-1/i-12345678", want: "i-12345678"},
		"an ID without slashes":             {id: "i-12345678", want: "i-12345678"},
		"nothing":                           {},
		"a slash at the end leaves nothing": {id: "aws:///us-east-1/", want: ""},
		"a virtual machine of Azure": {id: "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm",
			want: "vm"},
		"an instance of a scale set stays whole": {id: scaleSet, want: scaleSet},
		"only Azure has scale sets":              {id: "other://virtualMachineScaleSets/workers/0", want: "0"},
		"one of Kubermatic": {id: "kubermatic://hetzner/1f63df99-2a20-4460-877e-d8bc69001052",
			want: "1f63df99-2a20-4460-877e-d8bc69001052"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, autoscaler.NormalizeProviderID(tc.id))
		})
	}
}
