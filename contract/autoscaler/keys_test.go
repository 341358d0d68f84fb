package autoscaler_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
)

func TestKeysFor_FollowTheGroup(t *testing.T) {
	want := autoscaler.Keys{
		Group:            "cluster.k8s.io",
		MinSize:          "cluster.k8s.io/cluster-api-autoscaler-node-group-min-size",
		MaxSize:          "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size",
		OptionPrefix:     "cluster.k8s.io/autoscaling-options-",
		DeleteMachine:    "cluster.k8s.io/delete-machine",
		Machine:          "cluster.k8s.io/machine",
		ClusterNamespace: "cluster.k8s.io/cluster-namespace",
		ClusterName:      "cluster.k8s.io/cluster-name",
	}
	if diff := cmp.Diff(want, autoscaler.KeysFor("cluster.k8s.io")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Equal(t, autoscaler.DefaultKeys(), autoscaler.KeysFor(""))
	require.Equal(t, contract.ClusterNameLabel, autoscaler.DefaultKeys().ClusterName)
}

func TestKeys_AllSaysWhichKeysFollowTheGroup(t *testing.T) {
	const group = "example.com"
	seen := map[string]bool{}
	for _, key := range autoscaler.KeysFor(group).All() {
		require.Equal(t, key.FollowsGroup, strings.HasPrefix(key.Name, group+"/"), key.Name)
		require.NotEmpty(t, key.On, key.Name)
		require.Contains(t, []string{"annotation", "label", "taint"}, key.Place)
		require.False(t, seen[key.Name+key.Place], "%s is listed twice", key.Name)
		seen[key.Name+key.Place] = true
	}
	require.Equal(t, autoscaler.DefaultKeys().All(), autoscaler.Keys{}.All(), "the zero Keys are the default ones")
}

func TestKeys_AllGivesSlicesAway(t *testing.T) {
	first := autoscaler.DefaultKeys().All()
	first[0].On[0], first[0].Name = "Changed", "changed"
	second := autoscaler.DefaultKeys().All()
	require.NotContains(t, second[1].On, "Changed")
	require.NotEqual(t, "changed", second[0].Name)
	require.NotContains(t, first[1].On, "Changed", "entries share no slice")
}

// The table in the documentation is compared with the code, so that it cannot lie.
func TestTheTableInTheDocumentationIsTheOneOfTheCode(t *testing.T) {
	var table strings.Builder
	for _, key := range autoscaler.DefaultKeys().All() {
		fmt.Fprintf(&table, "//\t%-60s %s of %s", key.Name, key.Place, people(key.On))
		if key.FollowsGroup {
			table.WriteString(", follows")
		}
		if key.Written {
			table.WriteString(", written")
		}
		table.WriteString("\n")
	}
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	if !strings.Contains(string(doc), table.String()) {
		t.Errorf("doc.go must contain:\n%s", table.String())
	}
}

func people(kinds []string) string {
	names := []string{}
	if slices.Contains(kinds, "MachinePool") {
		names = append(names, "scalable objects")
	}
	for _, kind := range kinds {
		if !slices.Contains(kinds, "MachinePool") || kind == "Machine" {
			names = append(names, kind+"s")
		}
	}
	return strings.Join(names, " and ")
}

func TestReplicasManagedElsewhere_CountsEveryValueButFalse(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		by          string
		managed     bool
	}{
		"no annotation": {},
		"a name": {
			annotations: map[string]string{autoscaler.ReplicasManagedByAnnotation: "karpenter"}, by: "karpenter", managed: true},
		"the empty value":     {annotations: map[string]string{autoscaler.ReplicasManagedByAnnotation: ""}, managed: true},
		"true is a name":      {annotations: map[string]string{autoscaler.ReplicasManagedByAnnotation: "true"}, by: "true", managed: true},
		"false is no manager": {annotations: map[string]string{autoscaler.ReplicasManagedByAnnotation: "false"}},
		"False is a value":    {annotations: map[string]string{autoscaler.ReplicasManagedByAnnotation: "False"}, by: "False", managed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			by, managed := autoscaler.ReplicasManagedElsewhere(tc.annotations)
			require.Equal(t, tc.by, by)
			require.Equal(t, tc.managed, managed)
		})
	}
}
