package machineset_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/machineset"
)

func TestRightsAreThoseOfTheParts(t *testing.T) {
	flat := func(w machineset.Wiring) map[string][]string {
		all := map[string][]string{}
		for _, r := range machineset.PolicyRules(w) {
			for _, resource := range r.Resources {
				for _, group := range r.APIGroups {
					all[resource+"."+group] = r.Verbs
				}
			}
		}
		return all
	}
	inAnyOrder := cmpopts.SortSlices(strings.Compare)
	kinds := kindsOf(t)
	owns := []string{"get", "list", "watch", "create", "patch", "delete"}
	bare := map[string][]string{
		"machinesets.cluster.x-k8s.io": {"get", "list", "watch", "patch"}, "machinesets/status.cluster.x-k8s.io": {"patch"},
		"machines.cluster.x-k8s.io": owns, "machines/status.cluster.x-k8s.io": {"patch"},
	}
	if diff := cmp.Diff(bare, flat(machineset.Wiring{Kinds: kinds}), inAnyOrder); diff != "" {
		t.Errorf("without anything else (-want +got):\n%s", diff)
	}
	full := map[string][]string{
		"machinesets/finalizers.cluster.x-k8s.io": {"update"},
		"ms.example.com": {"get", "list", "watch", "create", "patch"}, "t.example.com": {"list", "watch", "patch", "delete"},
		"clusters.cluster.x-k8s.io": {"get", "list", "watch"}, "planes.example.com": {"list", "watch"},
		"customresourcedefinitions.apiextensions.k8s.io": {"list", "watch"}, "events.events.k8s.io": {"create", "patch"},
	}
	maps.Copy(full, bare)
	// the admission plugin OwnerReferencesPermissionEnforcement asks for the right to delete what gets its Cluster as an owner
	full["machinesets.cluster.x-k8s.io"] = []string{"get", "list", "watch", "patch", "delete"}
	at := func(resource string) []schema.GroupResource {
		return []schema.GroupResource{{Group: "example.com", Resource: resource}}
	}
	got := flat(machineset.Wiring{
		Kinds: kinds, Templates: at("t"), References: at("ms"), Clusters: true, ControlPlanes: at("planes"), Events: true,
		OwnerReferencesEnforced: true,
	})
	if diff := cmp.Diff(full, got, inAnyOrder); diff != "" {
		t.Errorf("with everything (-want +got):\n%s", diff)
	}
}
