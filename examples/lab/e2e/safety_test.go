//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// TestE2EAScriptThatCreatesMachinesFreezesTheirSet creates Machines with the labels and the owner of a set, which cannot go for a while.
func TestE2EAScriptThatCreatesMachinesFreezesTheirSet(t *testing.T) {
	takesTurns(t)
	const hold = "example.com/hold"
	w := newSetWorld(t)
	w.startProviders(worldOptions{})
	w.startManager([]string{"--clusters=never", "--machinesets", "--machinedeployments", "--machine-safety-overshooting-period=1s"})
	objects := w.apply(setDocument("frozen", 2))
	set := objects[2]
	w.setHas(set, 2)
	stray := make([]*unstructured.Unstructured, 8)
	for i := range stray {
		gvk := fake.InfraMachineGVK(contract.V1Beta2)
		name := fmt.Sprintf("stray-%d", i)
		stray[i] = fake.Machine(name, fake.WithLabels(map[string]string{"pool": "frozen", contract.ClusterNameLabel: "demo"}),
			fake.WithField(map[string]any{"dataSecretName": "none"}, "spec", "bootstrap"),
			fake.WithField(map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": name}, "spec", "infrastructureRef"))
		stray[i].SetFinalizers([]string{hold})
		stray[i].SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: set.GetAPIVersion(), Kind: set.GetKind(), Name: set.GetName(), UID: set.GetUID(), Controller: new(true),
		}})
		require.NoError(t, w.client.Create(t.Context(), stray[i]))
	}
	w.eventually("the set to freeze", func() string {
		fresh := w.get(set)
		c, _, _ := contract.ConditionsAt("status", "conditions").Find(fresh.Object, scale.ConditionFrozen)
		if fresh.GetLabels()[scale.FreezeLabel] != scale.ReasonOverShooting || c.Reason != scale.ReasonOverShooting {
			return describe(fresh)
		}
		return ""
	})
	for _, m := range stray {
		require.NoError(t, w.client.Patch(t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	}
	w.eventually("the set to thaw", func() string {
		if fresh := w.get(set); fresh.GetLabels()[scale.FreezeLabel] != "" || len(w.listed(fake.MachineGVK())) != 2 {
			return describe(fresh)
		}
		return ""
	})
	w.eventually("the events of the set", func() string {
		var list eventsv1.EventList
		require.NoError(t, w.client.List(t.Context(), &list, client.InNamespace("default")))
		for _, reason := range []string{"FrozeMachineSet", "UnfrozeMachineSet"} {
			if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == reason && e.Regarding.Name == "frozen" }) {
				return reason + " is missing"
			}
		}
		return ""
	})
	w.scaleTo(set, 3)
	w.setHas(set, 3)
	require.NoError(t, w.client.Delete(t.Context(), set))
	w.gone(set)
	require.NoError(t, w.client.Delete(t.Context(), objects[0]))
	require.NoError(t, w.client.Delete(t.Context(), objects[1]))
}

// TestE2EAnInstanceWhoseMachineIsGoneIsReportedAndCollected takes the Machine of one of three instances away, as a lost etcd would.
func TestE2EAnInstanceWhoseMachineIsGoneIsReportedAndCollected(t *testing.T) {
	takesTurns(t)
	w := newBareWorld(t, shared(t))
	flags := []string{
		"--driver=kwok", "--driver-qps=50", "--machine-safety-orphan-vms-period=1s", "--machine-safety-orphan-confirmations=3",
		"--machine-safety-orphan-age=3s", "--machine-safety-orphan-start-delay=1s",
	}
	b := &bursts{world: w, metrics: freeAddress(t)}
	manager := w.startManager(append(slices.Clone(flags), "--metrics-bind-address", b.metrics, "--metrics-secure=false"))
	machines := make([]*unstructured.Unstructured, 3)
	for i := range machines {
		name := fmt.Sprintf("orphan-%d", i)
		machines[i] = fake.Machine(name, fake.WithField(map[string]any{"dataSecretName": "none"}, "spec", "bootstrap"),
			fake.WithField(map[string]any{
				"apiGroup": kwokdriver.GVK().Group, "kind": kwokdriver.GVK().Kind, "name": name,
			}, "spec", "infrastructureRef"))
		require.NoError(t, w.client.Create(t.Context(), machines[i]))
	}
	for _, m := range machines {
		w.ready(m)
	}
	manager.stop()
	lost := string(w.get(machines[0]).GetUID())
	w.release(machines[0])

	manager.start()
	nodeOf := func(token string) (found *corev1.Node) {
		for _, node := range w.kwokNodes() {
			if node.Annotations[kwokdriver.TokenAnnotation] == token {
				found = &node
			}
		}
		return found
	}
	w.eventually("several looks that confirm it", func() string {
		if looks := b.metric("machinist_safety_orphan_passes_total", `result="done"`); looks < 6 {
			return fmt.Sprint(looks)
		}
		return ""
	})
	require.InDelta(t, 1, b.metric("machinist_safety_orphan_instances"), 0)
	report := w.orphans(manager.binary)
	require.Len(t, report.Orphans, 1)
	require.Equal(t, lost, report.Orphans[0].Token)
	require.True(t, report.DryRun)
	manager.stop()
	require.NotContains(t, manager.log.String(), "deleted=true")
	require.Contains(t, manager.log.String(), "an instance has no Machine")
	require.Contains(t, manager.log.String(), "2 of 3 confirmations")
	require.Len(t, w.kwokNodes(), 3, "nothing was deleted")

	manager.args = append(manager.args, "--machine-safety-collect-orphans") // it needs no further rights
	manager.start()
	w.eventually("the instance to be collected", func() string {
		if nodeOf(lost) != nil {
			return "it is still there"
		}
		return ""
	})
	require.Len(t, w.kwokNodes(), 2, "the others stay")
	for _, m := range machines[1:] {
		w.ready(m)
		require.NoError(t, w.client.Delete(t.Context(), m))
	}
	w.gone(machines[1], machines[2])
	manager.stop()
	require.Contains(t, manager.log.String(), "deleted=true")
}

// release deletes a Machine without its controller.
func (w *world) release(m *unstructured.Unstructured) {
	w.t.Helper()
	require.NoError(w.t, w.client.Delete(w.t.Context(), m))
	require.NoError(w.t, w.client.Patch(w.t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	w.gone(m)
}

// orphans is what manager orphans prints.
func (w *world) orphans(binary string) (report guard.Report) {
	w.t.Helper()
	kubeconfig := w.t.TempDir() + "/kubeconfig"
	require.NoError(w.t, cluster.WriteKubeconfig(kubeconfig, w.plane.Config()))
	out, err := exec.CommandContext(w.t.Context(), binary, "orphans", "--driver=kwok", "--kubeconfig", kubeconfig, "-o", "json").Output()
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(out, &report))
	return report
}
