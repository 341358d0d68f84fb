package inframachine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
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
	require.ErrorContains(t, err, "ProviderID is not stored, so an instance is not found again")
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

// withoutFinalizers is a webhook that removes finalizers from what the provider under test writes, while it is on.
type withoutFinalizers struct {
	client.Client

	on   *atomic.Bool
	seen *atomic.Int64
}

func (w withoutFinalizers) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	raw, err := patch.Data(obj)
	body := map[string]any{}
	if err != nil || !w.on.Load() || json.Unmarshal(raw, &body) != nil {
		return w.Client.Patch(ctx, obj, patch, opts...)
	}
	if metadata, ok := body["metadata"].(map[string]any); ok && metadata["finalizers"] != nil {
		delete(metadata, "finalizers")
		w.seen.Add(1)
	}
	if raw, err = json.Marshal(body); err != nil {
		return err
	}
	return w.Client.Patch(ctx, obj, client.RawPatch(patch.Type(), raw), opts...)
}

// Such an InfraMachine would vanish at once in a deletion, and leave its instance behind.
func TestNoInstanceIsMadeForAnObjectThatDoesNotKeepItsFinalizer(t *testing.T) {
	var on atomic.Bool
	var seen atomic.Int64
	on.Store(true)
	w := newWorld(t, worldOptions{ports: func(p *engine.Ports) { p.Client = withoutFinalizers{p.Client, &on, &seen} }})
	m, infra := w.machineOf("m1", "small")
	require.Eventually(t, func() bool { return seen.Load() > 2 }, time.Minute, 10*time.Millisecond)
	require.Empty(t, w.instances())
	on.Store(false)
	w.reaches(m, string(phases.Running))
	require.Contains(t, w.Get(infra).GetFinalizers(), inframachine.Finalizer)
}

// The answer to the creation was lost, and its Node may have joined: only the provider ID finds it, and no event says when to ask again.
func TestAnInstanceIsLookedForUntilItsDriverSaysWhetherItExists(t *testing.T) {
	const hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/test"
	var deleting atomic.Bool
	var looks atomic.Int64 // since then
	w := newWorld(t, worldOptions{cloud: fake.DriverOptions{Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpCreate || op == provider.OpGet && (!deleting.Load() || looks.Add(1) < 4) {
			return errors.New("connection reset")
		}
		return nil
	}}})
	m, infra := w.machineOf("m1", "small")
	w.says(infra, contract.ConditionReady, string(provider.Unavailable))
	w.Change(m, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{hook: ""}) })
	deleting.Store(true)
	w.Delete(m)
	w.Until("the provider ID", func() bool {
		id, _, _ := unstructured.NestedString(w.Get(infra).Object, "spec", "providerID")
		return id != ""
	})
}
