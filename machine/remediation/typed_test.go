package remediation_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// FleetCheck is a health check of an embedder, with the fields that it needs.
type FleetCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Fleet      string             `json:"fleet"`
	Patience   metav1.Duration    `json:"patience"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (f *FleetCheck) DeepCopyObject() runtime.Object {
	c := *f
	c.ObjectMeta = *f.ObjectMeta.DeepCopy()
	c.Conditions = slices.Clone(f.Conditions)
	return &c
}

// FleetCheckList is a list of them.
type FleetCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []FleetCheck `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *FleetCheckList) DeepCopyObject() runtime.Object {
	return &FleetCheckList{TypeMeta: l.TypeMeta, Items: slices.Clone(l.Items)}
}

func fleetChecks(conditions bool) contract.HealthCheckKind {
	return contract.NewTyped(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FleetCheck"},
		func() *FleetCheck { return &FleetCheck{} }, func() runtime.Object { return &FleetCheckList{} },
		func(f *FleetCheck, into *contract.HealthCheckState) error {
			into.Metadata.From(f)
			into.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": f.Fleet}}
			into.NodeRules = []contract.HealthRule{{Type: "Ready", Status: metav1.ConditionUnknown, Timeout: f.Patience.Duration}}
			into.Conditions = f.Conditions
			return nil
		},
		func(f *FleetCheck, u contract.HealthCheckUpdate) error {
			u.MetadataUpdate.ApplyTo(f)
			if conditions {
				f.Conditions = contract.UpdatedConditions(f.Conditions, u.Conditions, u.RemoveConditions)
			}
			return nil
		})
}

func TestAHealthCheckMayHaveAGoTypeOfItsOwn(t *testing.T) {
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	kinds.Check = fleetChecks(true)
	_, err = remediation.New(kinds, remediation.Ports{}, remediation.Options{})
	require.NotContains(t, err.Error(), "is not stored", "the ports alone are missing")
	forgotten, err := contract.CheckKind(fleetChecks(false))
	require.NoError(t, err)
	at := slices.IndexFunc(forgotten, func(f contract.NotStored) bool { return f.Member == "Conditions" })
	require.Equal(t, contract.NeedShould, forgotten[at].Need)
	var state contract.HealthCheckState
	require.NoError(t, kinds.Check.Adapter.Read(&FleetCheck{Fleet: "a", Patience: metav1.Duration{Duration: time.Minute}}, &state))
	require.Equal(t, time.Minute, state.NodeRules[0].Timeout)
}

func TestRightsAreThoseOfTheParts(t *testing.T) {
	flat := func(w remediation.Wiring) map[string][]string {
		all := map[string][]string{}
		for _, r := range remediation.PolicyRules(w) {
			for _, resource := range r.Resources {
				for _, group := range r.APIGroups {
					all[resource+"."+group] = r.Verbs
				}
			}
		}
		return all
	}
	inAnyOrder := cmpopts.SortSlices(strings.Compare)
	kinds, err := contract.ClusterAPI(contract.V1Beta1)
	require.NoError(t, err)
	bare := map[string][]string{
		"machinehealthchecks.cluster.x-k8s.io": {"list", "watch", "patch"}, "machinehealthchecks/status.cluster.x-k8s.io": {"patch"},
		"machines.cluster.x-k8s.io": {"list", "watch"}, "machines/status.cluster.x-k8s.io": {"patch"},
	}
	require.Empty(t, cmp.Diff(bare, flat(remediation.Wiring{Kinds: kinds}), inAnyOrder))
	full := maps.Clone(bare)
	maps.Copy(full, map[string][]string{
		"cycles.example.com": {"list", "watch", "create", "delete"}, "cycletemplates.example.com": {"list", "watch"},
		"clusters.cluster.x-k8s.io": {"get", "list", "watch"}, "events.events.k8s.io": {"create", "patch"},
		// the admission plugin OwnerReferencesPermissionEnforcement asks for the right to delete what gets its Cluster as an owner
		"machinehealthchecks.cluster.x-k8s.io": {"list", "watch", "patch", "delete"},
	})
	at := func(resource string) []schema.GroupResource {
		return []schema.GroupResource{{Group: "example.com", Resource: resource}}
	}
	require.Empty(t, cmp.Diff(full, flat(remediation.Wiring{Kinds: kinds, Templates: at("cycletemplates"), Requests: at("cycles"),
		Clusters: true, Events: true, OwnerReferencesEnforced: true}), inAnyOrder))
	kinds.Machine.StatusSubresource = false
	require.ElementsMatch(t, []string{"list", "watch", "patch"}, flat(remediation.Wiring{Kinds: kinds})["machines.cluster.x-k8s.io"])
}
