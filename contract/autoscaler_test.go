package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestReplicasManagedElsewhere_CountsEveryValueButFalse(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		managed     bool
	}{
		"no annotation":       {},
		"a name":              {annotations: map[string]string{contract.ReplicasManagedByAnnotation: "karpenter"}, managed: true},
		"the empty value":     {annotations: map[string]string{contract.ReplicasManagedByAnnotation: ""}, managed: true},
		"true is a name":      {annotations: map[string]string{contract.ReplicasManagedByAnnotation: "true"}, managed: true},
		"false is no manager": {annotations: map[string]string{contract.ReplicasManagedByAnnotation: "false"}},
		"False is a value":    {annotations: map[string]string{contract.ReplicasManagedByAnnotation: "False"}, managed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pool := contract.MachinePoolState{Metadata: contract.Metadata{Annotations: tc.annotations}}
			require.Equal(t, tc.managed, pool.ReplicasManagedElsewhere())
		})
	}
}
