package inframachine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
)

func TestNewSaysAllThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := inframachine.New(inframachine.Kinds{}, engine.Ports{}, inframachine.Options{})
	for _, want := range []string{"kind InfraMachine needs", "kind Machine needs", "Ports.Client", "Ports.Cache", "Ports.APIReader",
		"Calls has no Create"} {
		require.ErrorContains(t, err, want)
	}
	_, err = inframachine.ClusterAPI(cloudMachineGVK(), contract.V1Alpha4)
	require.ErrorIs(t, err, contract.ErrUnknownVersion)
	kinds, err := inframachine.ClusterAPI(cloudMachineGVK(), contract.V1Beta2)
	require.NoError(t, err)
	forgetful := *contract.LayoutsOf(contract.V1Beta2).ProvidedMachine
	forgetful.ProviderID = contract.Field[string]{}
	kinds.InfraMachine = contract.Unstructured(kinds.InfraMachine.GVK, &forgetful)
	_, err = inframachine.New(kinds, engine.Ports{}, inframachine.Options{})
	require.ErrorContains(t, err, "ProviderID is not kept, so an instance is not found again")
}

func TestAListWithoutAStepThatKeepsAnInstanceSafeIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range inframachine.Steps() {
		steps := inframachine.Steps().Remove(s.Name)
		_, err := inframachine.New(inframachine.Kinds{}, engine.Ports{}, inframachine.Options{Steps: steps})
		if s.Name != inframachine.StepInstance {
			require.ErrorContains(t, err, "step "+s.Name)
		} else {
			require.NotContains(t, err.Error(), "step ", "one without it makes nothing")
		}
	}
}

func TestTheSpecificationIsTheSpecWithoutWhatTheProviderWrites(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		``: `{}`, `{}`: `{}`, `{"size":"small","providerID":"x://1"}`: `{"size":"small"}`,
	} {
		r, err := inframachine.Spec(t.Context(), &contract.ProvidedMachineState{Spec: json.RawMessage(spec)})
		require.NoError(t, err)
		require.JSONEq(t, want, string(r.Spec))
	}
	_, err := inframachine.Spec(t.Context(), &contract.ProvidedMachineState{Spec: json.RawMessage(`[]`)})
	require.Equal(t, provider.Invalid, provider.ClassOf(err))
}

// lines are rules as a person would write them down.
func lines(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, strings.Join(r.APIGroups, ",")+"/"+strings.Join(r.Resources, ",")+" "+strings.Join(r.Verbs, ","))
	}
	slices.Sort(all)
	return all
}

func TestRightsFollowFromTheWiring(t *testing.T) {
	t.Parallel()
	w := inframachine.Wiring{
		InfraMachine: schema.GroupResource{Group: "infrastructure.example.com", Resource: "cloudmachines"},
		Machine:      schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"},
	}
	least := []string{"cluster.x-k8s.io/machines list,watch", "infrastructure.example.com/cloudmachines list,patch,watch"}
	require.Empty(t, cmp.Diff(least, lines(inframachine.PolicyRules(w))))
	w.StatusSubresource, w.Secrets, w.Clusters, w.Events = true, true, true, true
	require.Empty(t, cmp.Diff([]string{
		"/secrets get", "cluster.x-k8s.io/clusters get,list,watch", "cluster.x-k8s.io/machines list,watch",
		"events.k8s.io/events create,patch", "infrastructure.example.com/cloudmachines list,patch,watch",
		"infrastructure.example.com/cloudmachines/status patch",
	}, lines(inframachine.PolicyRules(w))))
}
