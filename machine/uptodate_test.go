package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func capi(version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: kind}
}

// rolloutWorld is a world whose Machines are measured against MachineSets and MachineDeployments of a version.
func rolloutWorld(t *testing.T, version string) *world {
	t.Helper()
	sets := contract.Unstructured(capi("v1beta2", "MachineSet"), contract.MachineSetV1Beta2())
	deployments := contract.Unstructured(capi("v1beta2", "MachineDeployment"), contract.MachineDeploymentV1Beta2())
	if version == "v1beta1" {
		sets = contract.Unstructured(capi(version, "MachineSet"), contract.MachineSetV1Beta1())
		deployments = contract.Unstructured(capi(version, "MachineDeployment"), contract.MachineDeploymentV1Beta1())
	}
	return newWorld(t, worldOptions{
		store: fake.Options{Kinds: []fake.ServedKind{{GVK: sets.GVK, Status: true}, {GVK: deployments.GVK, Status: true}}},
		ports: func(mgr ctrl.Manager, p *machine.Ports) {
			rollouts, err := machine.RolloutFromManager(mgr, sets, deployments)
			require.NoError(t, err)
			p.RolloutOf, p.RolloutEvents = rollouts.Of, rollouts.Source
		},
	})
}

// template is an object with a template of Machines.
func template(version, kind, name, revision string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterName": "demo", "template": map[string]any{"spec": map[string]any{"clusterName": "demo", "version": "v1.33.0"}},
	}}}
	u.SetGroupVersionKind(capi(version, kind))
	u.SetNamespace("default")
	u.SetName(name)
	u.SetAnnotations(map[string]string{contract.RevisionAnnotation: revision})
	return u
}

func (w *world) patched(obj *unstructured.Unstructured, change func(*unstructured.Unstructured)) {
	w.t.Helper()
	base := w.get(obj)
	changed := base.DeepCopy()
	change(changed)
	require.NoError(w.t, w.client.Patch(w.t.Context(), changed, client.MergeFrom(base)))
}

func (w *world) outdated(node string) bool {
	for _, taint := range w.node(node).Spec.Taints {
		if taint.Key == "node.cluster.x-k8s.io/outdated-revision" && taint.Effect == "PreferNoSchedule" {
			return true
		}
	}
	return false
}

func TestAMachineOfADeploymentSaysWhetherItIsUpToDate(t *testing.T) {
	for _, version := range []string{"v1beta2", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := rolloutWorld(t, version)
			set, deployment := template(version, "MachineSet", "md-1", "1"), template(version, "MachineDeployment", "md", "1")
			set.SetLabels(map[string]string{contract.DeploymentNameLabel: "md"})
			w.create(deployment, set)
			owned := func(u *unstructured.Unstructured) {
				// An owner of another version is the same owner.
				u.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
					"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "md-1", "uid": string(set.GetUID()), "controller": true}}
			}
			m := w.machineWith("m1", fake.WithLabels(map[string]string{contract.DeploymentNameLabel: "md"}), owned)
			w.conditionIs(m, contract.ConditionUpToDate, contract.ReasonUpToDate)
			w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
			require.False(t, w.outdated("m1"))
			w.isQuiet()

			w.patched(deployment, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{contract.RevisionAnnotation: "2"})
				require.NoError(t, unstructured.SetNestedField(u.Object, "v1.34.0", "spec", "template", "spec", "version"))
			})
			require.Equal(t, "* Version v1.33.0, v1.34.0 required", w.conditionIs(m, contract.ConditionUpToDate, contract.ReasonNotUpToDate))
			w.eventually("the taint", func() string {
				if !w.outdated("m1") {
					return "there is none"
				}
				return ""
			})
			require.Equal(t, contract.ReasonReady, conditionOf(w.get(m), contract.ConditionReady).Reason, "Ready does not depend on it")

			t.Log("the set is brought up to date in place")
			w.patched(set, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{contract.RevisionAnnotation: "2"})
				require.NoError(t, unstructured.SetNestedField(u.Object, "v1.34.0", "spec", "template", "spec", "version"))
			})
			w.conditionIs(m, contract.ConditionUpToDate, contract.ReasonUpToDate)
			w.eventually("the taint to go", func() string {
				if w.outdated("m1") {
					return "it is still there"
				}
				return ""
			})
		})
	}
}

func TestUpToDateOfAMachineThatStandsAloneIsWhatOthersSay(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t, "v1beta2")
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	base := w.get(m)
	require.Empty(t, conditionOf(base, contract.ConditionUpToDate).Type)
	said := base.DeepCopy()
	list, _, err := unstructured.NestedSlice(said.Object, "status", "conditions")
	require.NoError(t, err)
	list = append(list, map[string]any{"type": "UpToDate", "status": "False", "reason": "KubeadmConfigChanged", "message": "says KCP",
		"lastTransitionTime": "2026-01-01T00:00:00Z"})
	require.NoError(t, unstructured.SetNestedSlice(said.Object, list, "status", "conditions"))
	require.NoError(t, w.client.Status().Patch(t.Context(), said, client.MergeFrom(base)))
	require.NoError(t, w.client.Delete(t.Context(), w.node("m1")))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
	require.Equal(t, "says KCP", conditionOf(w.get(m), contract.ConditionUpToDate).Message)
}

func TestRolloutsNeedKindsThatCanBeRead(t *testing.T) {
	_, err := machine.RolloutFromCache(nil, contract.MachineSetKind{}, contract.MachineDeploymentKind{})
	require.ErrorContains(t, err, "the kind of MachineSet needs")
	require.ErrorContains(t, err, "the kind of MachineDeployment needs")
}
