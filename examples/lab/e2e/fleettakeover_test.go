//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

// handedOver is how many Machines change hands.
const handedOver = 10

// parts are the kinds of what a fleet consists of.
func parts() []schema.GroupVersionKind {
	capi := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind}
	}
	return []schema.GroupVersionKind{
		capi("MachineDeployment"), capi("MachineSet"), capi("Machine"), fake.InfraMachineGVK(contract.V1Beta2),
		fake.BootstrapConfigGVK(contract.V1Beta2), {Version: "v1", Kind: "Node"}, {Version: "v1", Kind: "Secret"},
	}
}

// fleetNow is what the objects of a fleet are, without their status and our annotations, as JSON by kind and name.
func (w *world) fleetNow() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, gvk := range parts() {
		for _, obj := range w.listed(gvk) {
			annotations := map[string]string{}
			maps.Copy(annotations, obj.GetAnnotations())
			maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "machinist.dev/") })
			metadata := map[string]any{
				"uid": obj.GetUID(), "labels": obj.GetLabels(), "annotations": annotations, "finalizers": obj.GetFinalizers(),
				"ownerReferences": obj.GetOwnerReferences(), "deletionTimestamp": obj.GetDeletionTimestamp(), "generation": obj.GetGeneration(),
			}
			content, err := json.MarshalIndent(map[string]any{"metadata": metadata, "spec": obj.Object["spec"]}, "", " ")
			require.NoError(w.t, err)
			all[gvk.Kind+" "+obj.GetName()] = string(content)
		}
	}
	return all
}

// stillness is for how long a manager writes nothing when it is at rest.
const stillness = 6 * time.Second

// atRest waits until a client, whose name its user agents begin with, watches MachineSets and has written nothing for a while. It returns
// what the client has written since a mark.
func (w *world) atRest(agent string, since cluster.AuditMark) cluster.AuditEvents {
	w.t.Helper()
	return w.restOf(agent, since, func(e cluster.AuditEvent) bool { return strings.HasPrefix(e.UserAgent, agent) })
}

// restOf is atRest for the client of some requests.
func (w *world) restOf(name string, since cluster.AuditMark, its func(cluster.AuditEvent) bool) cluster.AuditEvents {
	w.t.Helper()
	var written cluster.AuditEvents
	count, changed := -1, time.Now()
	w.eventually(name+" to come to rest", func() string {
		all, err := w.plane.Audit().Since(since)
		require.NoError(w.t, err)
		all = all.Where(its)
		written = all.Writes().Where(func(e cluster.AuditEvent) bool { return e.Resource != "leases" && e.Resource != "events" })
		starts := !slices.ContainsFunc(all, func(e cluster.AuditEvent) bool {
			return e.Verb == "watch" && e.Resource == "machinesets"
		})
		if n := len(written); n != count || starts {
			count, changed = n, time.Now()
		}
		if time.Since(changed) < stillness {
			return written.String()
		}
		return ""
	})
	return written
}

// scaled waits until a deployment has so many Machines, all of them available.
func (w *world) scaled(d *unstructured.Unstructured, replicas int64) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	require.NoError(w.t, w.client.Patch(w.t.Context(), d.DeepCopy(), patch))
	w.eventually(fmt.Sprintf("%d available Machines", replicas), func() string {
		fresh := w.get(d)
		available, _, _ := unstructured.NestedInt64(fresh.Object, "status", "availableReplicas")
		all, _, _ := unstructured.NestedInt64(fresh.Object, "status", "replicas")
		if available != replicas || all != replicas {
			return describe(fresh)
		}
		return ""
	})
	w.rollingOutIs(d, metav1.ConditionFalse)
}

// handOver returns a world of its own, because no other test can have a second manager, with a deployment and what starts Cluster API's
// manager and ours.
func handOver(t *testing.T) (w *world, d *unstructured.Unstructured, theirs, ours func() (stop func())) {
	t.Helper()
	program, err := arm.BuildCAPI(t.Context(), progress.New(os.Stderr, "takeover"))
	require.NoError(t, err)
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr, PodTermination: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	w = newBareWorld(t, plane)
	require.NoError(t, (&arm.Objects{Client: w.client, Plane: plane, Cluster: describedCluster}).Install(t.Context()))
	w.startProviders(worldOptions{})
	infra, config := template(fake.InfraMachineGVK(contract.V1Beta2)), template(fake.BootstrapConfigGVK(contract.V1Beta2))
	require.NoError(t, cluster.InstallCRDs(t.Context(), plane.Config(), fake.CRD(infra, contract.V1Beta2), fake.CRD(config, contract.V1Beta2)))
	return w, w.apply(deploymentOf(infra, config))[2], w.theirs(program), w.ours()
}

// Cluster API's manager makes a fleet and ends. Ours takes it over, scales it and ends, Cluster API's has it back, and ours again. Each
// leaves what the other has made as it is, but for our annotations. Cluster API copies those of a deployment to its set, ledger included.
func TestE2EAFleetIsTakenOverFromClusterAPIAndGivenBack(t *testing.T) {
	w, d, theirs, ours := handOver(t)
	for round, manager := range []struct {
		name, agent string
		start       func() (stop func())
	}{
		{"Cluster API", arm.CAPIAgent, theirs}, {"ours", managerAgent, ours},
		{"Cluster API again", arm.CAPIAgent, theirs}, {"ours again", managerAgent, ours},
	} {
		before, begin := w.fleetNow(), w.marked()
		stop := manager.start()
		if written := w.atRest(manager.agent, begin); round > 0 {
			t.Logf("%s takes %d Machines over and writes: %s", manager.name, handedOver, written)
			require.Empty(t, cmp.Diff(before, w.fleetNow()), manager.name)
			requireFewWrites(t, written)
		}
		w.scaled(d, handedOver+2)
		w.scaled(d, handedOver)
		w.atRest(manager.agent, begin)
		stop()
	}
}

// requireFewWrites fails if the Machines were changed more than twice each: once by the controller of Machines and once by that of their
// set. The two work at the same time, so a write of the first may meet that of the second, is refused (409), and is made again once.
func requireFewWrites(t *testing.T, written cluster.AuditEvents) {
	t.Helper()
	all := written.To("cluster.x-k8s.io", "machines")
	refused := all.Where(func(e cluster.AuditEvent) bool { return e.Code == http.StatusConflict })
	require.LessOrEqual(t, len(all)-len(refused), 2*handedOver, written)
	require.LessOrEqual(t, len(refused), handedOver, written)
}

// theirs and ours return what starts a manager.
func (w *world) theirs(program string) func() (stop func()) {
	return func() (stop func()) {
		w.t.Helper()
		m, err := arm.StartCAPI(program, w.plane)
		require.NoError(w.t, err)
		w.t.Cleanup(m.Stop)
		return m.Stop
	}
}

func (w *world) ours() func() (stop func()) {
	var m *managerProcess
	return func() (stop func()) {
		w.t.Helper()
		if m == nil {
			m = w.startManager([]string{"--machinesets", "--machinedeployments"})
		} else {
			m.start()
		}
		return m.stop
	}
}

// A Machine whose drain a budget holds changes hands in the middle of its deletion, from Cluster API's controller to ours and, another one,
// back: the start of the drain stays, the Pod stays until its budget lets it go, and the deletion ends.
func TestE2EADeletionIsTakenOverInItsMiddleAndGivenBack(t *testing.T) {
	w, d, theirs, ours := handOver(t)
	stop := theirs()
	w.scaled(d, 1)
	for _, next := range []struct {
		name, agent string
		start       func() (stop func())
	}{{"ours", managerAgent, ours}, {"Cluster API", arm.CAPIAgent, theirs}} {
		m, pod := w.guardedMachine(next.name)
		require.NoError(t, w.client.Delete(t.Context(), m))
		start := ""
		w.eventually("the drain of "+m.GetName(), func() string {
			start, _, _ = unstructured.NestedString(w.get(m).Object, "status", "deletion", "nodeDrainStartTime")
			c, _, _ := contract.ConditionsAt("status", "conditions").Find(w.get(m).Object, "Deleting")
			if start == "" || c.Reason != "DrainingNode" {
				return describe(w.get(m))
			}
			return ""
		})
		stop()
		begin := w.marked()
		stop = next.start()
		w.atRest(next.agent, begin)
		is, _, _ := unstructured.NestedString(w.get(m).Object, "status", "deletion", "nodeDrainStartTime")
		require.Equal(t, start, is, next.name)
		require.NotNil(t, w.get(pod), next.name)
		require.Nil(t, w.get(pod).GetDeletionTimestamp(), next.name)
		require.NoError(t, w.client.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: pod.ObjectMeta}))
		w.gone(m, pod, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}})
		w.scaled(d, 1)
	}
}

// guardedMachine returns the Machine of the fleet and a Pod on its Node, which a budget holds.
func (w *world) guardedMachine(name string) (*unstructured.Unstructured, *corev1.Pod) {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK())
	require.NoError(w.t, w.client.List(w.t.Context(), list, client.MatchingLabels{"cluster.x-k8s.io/deployment-name": describedCluster}))
	require.Len(w.t, list.Items, 1)
	node, _, _ := unstructured.NestedString(list.Items[0].Object, "status", "nodeRef", "name")
	meta := metav1.ObjectMeta{Namespace: "default", Name: strings.ReplaceAll(strings.ToLower(name), " ", "-")}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}},
		Tolerations: []corev1.Toleration{{Operator: "Exists"}},
	}}
	pod.Labels = map[string]string{"guarded": meta.Name}
	require.NoError(w.t, w.client.Create(w.t.Context(), pod))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	require.NoError(w.t, w.client.Create(w.t.Context(), budget))
	w.eventually("the budget to hold "+pod.Name, func() string {
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(budget), budget))
		if budget.Status.CurrentHealthy != 1 {
			return fmt.Sprintf("%d healthy", budget.Status.CurrentHealthy)
		}
		return ""
	})
	pod.ObjectMeta = metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name}
	return &list.Items[0], pod
}
