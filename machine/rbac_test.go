package machine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func wired() machine.Wiring {
	return machine.Wiring{
		Kind:       contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine),
		References: []schema.GroupResource{{Group: "infrastructure.cluster.x-k8s.io", Resource: "fakemachines"}},
	}
}

// lines are rules as a person would write them down.
func lines(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, strings.Join(r.APIGroups, ",")+"/"+strings.Join(r.Resources, ",")+" "+strings.Join(r.Verbs, ","))
	}
	return all
}

func TestRightsFollowFromTheWiring(t *testing.T) {
	t.Parallel()
	base := []string{
		"apiextensions.k8s.io/customresourcedefinitions get,list,watch",
		"cluster.x-k8s.io/machines list,patch,watch",
		"cluster.x-k8s.io/machines/status patch",
		"infrastructure.cluster.x-k8s.io/fakemachines delete,get,list,patch,watch",
	}
	for name, c := range map[string]struct {
		change func(*machine.Wiring)
		want   func([]string) []string
	}{
		"nothing but Machines and what they refer to": {func(*machine.Wiring) {}, func(l []string) []string { return l }},
		"no references, and no status of its own": {
			func(w *machine.Wiring) { w.References, w.Kind.StatusSubresource = nil, false },
			func([]string) []string { return []string{"cluster.x-k8s.io/machines list,patch,watch"} }},
		"a kind with an odd plural": {
			func(w *machine.Wiring) {
				w.References, w.Kind.StatusSubresource, w.Kind.GVK.Kind = nil, false, "EdgeBox"
			},
			func([]string) []string { return []string{"cluster.x-k8s.io/edgeboxes list,patch,watch"} }},
		"a kind that names its plural": {
			func(w *machine.Wiring) {
				w.References, w.Kind.StatusSubresource, w.Kind.Resource = nil, false, "machinery"
			},
			func([]string) []string { return []string{"cluster.x-k8s.io/machinery list,patch,watch"} }},
		"another name": {
			func(w *machine.Wiring) {
				w.References, w.Kind.StatusSubresource, w.Resource = nil, false, "machinery"
			},
			func([]string) []string { return []string{"cluster.x-k8s.io/machinery list,patch,watch"} }},
		"Clusters": {func(w *machine.Wiring) {
			w.Clusters = true
			w.ControlPlanes = []schema.GroupResource{{Group: "controlplane.cluster.x-k8s.io", Resource: "*"}}
		}, func(l []string) []string {
			l = slices.Insert(l, 1, "cluster.x-k8s.io/clusters get,list,watch")
			return slices.Insert(l, 4, "controlplane.cluster.x-k8s.io/* list,watch")
		}},
		"deployments and drain rules": {func(w *machine.Wiring) {
			w.DrainRules = true
			w.Deployments = []schema.GroupResource{{Group: "cluster.x-k8s.io", Resource: "machinesets"}}
		}, func(l []string) []string {
			return slices.Insert(l, 1, "cluster.x-k8s.io/machinedrainrules,machinesets list,watch")
		}},
		"events": {func(w *machine.Wiring) { w.Events = true },
			func(l []string) []string { return slices.Insert(l, 3, "events.k8s.io/events create,patch") }},
		"a strict API server": {func(w *machine.Wiring) { w.OwnerReferencesEnforced = true },
			func(l []string) []string { return slices.Insert(l, 2, "cluster.x-k8s.io/machines/finalizers update") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wired()
			c.change(&w)
			require.Empty(t, cmp.Diff(c.want(slices.Clone(base)), lines(machine.PolicyRules(w))))
		})
	}
}

func TestAMachineThatGetsItsClusterAsOwnerMayHaveToBeDeletable(t *testing.T) {
	t.Parallel()
	w := wired()
	w.Clusters, w.OwnerReferencesEnforced = true, true
	require.Contains(t, lines(machine.PolicyRules(w)), "cluster.x-k8s.io/machines delete,list,patch,watch")
}

func TestRightsOnNodesAreThoseOfADrainIfThereIsOne(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"/nodes delete,get,list,patch,watch"}, lines(machine.NodePolicyRules(machine.Wiring{DrainRules: true})))
	require.Equal(t, []string{
		"/namespaces,persistentvolumes list,watch", "/nodes delete,get,list,patch,watch", "/pods delete,list,watch", "/pods/eviction create",
		"policy/poddisruptionbudgets list,watch", "storage.k8s.io/volumeattachments list,watch",
	}, lines(machine.NodePolicyRules(machine.Wiring{Drains: true, DrainRules: true})))
}
