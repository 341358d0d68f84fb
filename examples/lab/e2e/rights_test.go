//go:build e2e

package e2e_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

// rollout is a MachineDeployment with its set, and the Cluster of all.
const rollout = `apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: FakeControlPlane
metadata: {name: demo, namespace: default}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo, namespace: default}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: FakeControlPlane, name: demo}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: demo, namespace: default}
spec:
  clusterName: demo
  replicas: 0
  selector: {matchLabels: {set: demo}}
  template:
    metadata: {labels: {set: demo}}
    spec:
      clusterName: demo
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: FakeMachineTemplate, name: demo}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: demo, namespace: default, labels: {cluster.x-k8s.io/deployment-name: demo}}
spec:
  clusterName: demo
  replicas: 0
  selector: {matchLabels: {set: demo}}
  template:
    metadata: {labels: {set: demo}}
    spec:
      clusterName: demo
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: FakeMachineTemplate, name: demo}
`

func controlPlaneGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "FakeControlPlane"}
}

// TestE2EThePrintedRightsAreExactlyEnough leads Machines of a MachineDeployment through their whole life, with Nodes in the cluster of
// the Machines and then in a workload cluster, as users who have what the manager prints and nothing more: nothing is denied, and
// each verb on each resource is used. The API server is as strict about owner references as OpenShift's.
func TestE2EThePrintedRightsAreExactlyEnough(t *testing.T) {
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr, ExtraArgs: map[cluster.Component][]string{
		cluster.APIServer: {"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	w := newBareWorld(t, plane)
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta2", "Cluster", "MachineSet", "MachineDeployment", "MachineDrainRule")
	require.NoError(t, err)
	require.NoError(t, cluster.InstallCRDs(t.Context(), plane.Config(), append(crds, fake.CRD(controlPlaneGVK(), contract.V1Beta2))...))
	w.startProviders(worldOptions{})
	binary := managerBinary(t)
	objects := w.apply(rollout)
	w.setStatus(objects[0], map[string]any{"externalManagedControlPlane": true})
	w.setStatus(objects[1], fake.Cluster("demo").Object["status"])
	w.apply(keepersRule)

	t.Run("without the rights of a strict API server", func(t *testing.T) { w.in(t).rightsAreMissing(binary) })
	t.Run("a drain without a manager", func(t *testing.T) { w.in(t).rightsOfADrain() })
	t.Run("kubectl's helper", func(t *testing.T) { w.in(t).rightsOfKubectl() })
	t.Run("Nodes beside the Machines", func(t *testing.T) { w.in(t).rightsAtHome(binary, objects[3]) })
	t.Run("Nodes in a workload cluster", func(t *testing.T) { w.in(t).rightsFarAway(binary) })
}

// in is the world of a subtest.
func (w *world) in(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

// setStatus writes what an object's own controller would.
func (w *world) setStatus(obj *unstructured.Unstructured, status any) {
	w.t.Helper()
	obj.Object["status"] = status
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), obj))
}

func flagsForRights(t *testing.T) []string {
	crd := func(gvk schema.GroupVersionKind) string { return contract.CRDName(gvk.GroupKind()) }
	return []string{
		"--leader-elect", "--leader-election-namespace", "default", "--leader-election-id", leaseName(t), "--owner-references-enforced",
		"--metrics-bind-address=0", // nobody reads them: package manifests has a test of those rights
		"--provider-resources", crd(fake.InfraMachineGVK(contract.V1Beta2)) + "," + crd(fake.BootstrapConfigGVK(contract.V1Beta2)),
		"--control-plane-resources", crd(controlPlaneGVK()),
	}
}

// notRequested are the rights that the admission plugin asks the authorizer for, without a request.
func notRequested() map[string]string {
	return map[string]string{
		"update cluster.x-k8s.io/machines/finalizers": "to own what blocks the deletion of a Machine",
		"delete cluster.x-k8s.io/machines":            "to change the owners of a Machine",
	}
}

// rarelyRequested is what the drain of a Node asks for only while its kubelet does not answer, its machine is off, or a policy says so.
func rarelyRequested() map[string]string {
	return map[string]string{"delete pods": "to shorten the grace period of pods whose Node does not answer"}
}

// rightsAreMissing makes sure that the API server asks for what notRequested excuses.
func (w *world) rightsAreMissing(binary string) {
	flags := slices.DeleteFunc(flagsForRights(w.t), func(flag string) bool { return flag == "--owner-references-enforced" })
	user, err := rights.Grant(w.t.Context(), w.plane, "rights-are-missing", asksFor(w.t, binary, flags...))
	require.NoError(w.t, err)
	m := fake.Machine("strict", fake.WithAnnotations(map[string]string{contract.PausedAnnotation: ""}))
	w.withParts(m)
	limited, err := client.New(user.Config(), client.Options{})
	require.NoError(w.t, err)
	for obj, owner := range map[*unstructured.Unstructured]string{
		m: `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"demo","uid":"1"}`,
		fake.InfraMachine(contract.V1Beta2, "strict"): "" +
			`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","name":"strict","uid":"1","blockOwnerDeletion":true}`,
	} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":[`+owner+`]}}`))
		err := limited.Patch(w.t.Context(), obj, patch, client.DryRunAll)
		require.True(w.t, apierrors.IsForbidden(err), "%s: %v", obj.GetKind(), err)
		require.ErrorContains(w.t, err, "cannot set")
	}
	require.NoError(w.t, w.client.Delete(w.t.Context(), m))
	require.NoError(w.t, user.Close(w.t.Context()))
}

// rightsAtHome also has informers list, as those of older clients and servers do, and restarts the manager in the middle.
func (w *world) rightsAtHome(binary string, set *unstructured.Unstructured) {
	flags := flagsForRights(w.t)
	user, err := rights.Grant(w.t.Context(), w.plane, "rights-at-home", asksFor(w.t, binary, flags...))
	require.NoError(w.t, err)
	manager := w.startManagerAs(user, binary, []string{"KUBE_FEATURE_WatchListClient=false"}, flags...)
	owned := fake.Machine("of-a-set", fake.WithLabels(map[string]string{"set": "demo", "team": "blue"}))
	owned.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(set, set.GroupVersionKind())})
	alone := fake.Machine("alone")
	w.withParts(owned)
	w.withParts(alone)
	w.ready(owned)
	w.ready(alone)
	w.haveTrouble()
	require.Equal(w.t, "Cluster", w.get(alone).GetOwnerReferences()[0].Kind)
	w.diesSlowly(owned)

	manager.stop()
	manager.start()
	require.NoError(w.t, w.client.Delete(w.t.Context(), alone))
	w.gone(alone)
	manager.stop()
	excused := notRequested()
	maps.Copy(excused, rarelyRequested())
	w.exactly(user, excused)
}

// rightsFarAway has a workload cluster that is the same one, with the kubeconfig of another user.
func (w *world) rightsFarAway(binary string) {
	flags := append(flagsForRights(w.t), "--workload-clusters")
	user, err := rights.Grant(w.t.Context(), w.plane, "rights-far-away", asksFor(w.t, binary, flags...))
	require.NoError(w.t, err)
	nodes, err := rights.Grant(w.t.Context(), w.plane, "rights-on-nodes", asksFor(w.t, binary, append(flags, "--print-node-rbac")...))
	require.NoError(w.t, err)
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, cluster.WriteKubeconfig(path, nodes.Config()))
	kubeconfig, err := os.ReadFile(path)
	require.NoError(w.t, err)
	require.NoError(w.t, w.client.Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig",
			Labels: map[string]string{contract.ClusterNameLabel: "demo"}},
		Data: map[string][]byte{workloads.KubeconfigKey: kubeconfig},
	}))
	manager := w.startManagerAs(user, binary, []string{"KUBE_FEATURE_WatchListClient=false"}, flags...)
	m := fake.Machine("far-away", fake.WithLabels(map[string]string{"team": "blue"}))
	w.withParts(m)
	w.ready(m)
	w.haveTrouble()
	w.diesSlowly(m)
	manager.stop()
	w.exactly(user, notRequested())
	w.exactly(nodes, rarelyRequested())
}

// haveTrouble has a Machine whose Cluster does not exist, so that the API server itself is asked for it, one whose Node is gone before it
// is, so that its Node is asked for, and one whose parts are of kinds that do not exist. The two events about that differ in their notes
// only, so the recorder patches the first.
func (w *world) haveTrouble() {
	w.t.Helper()
	lost := fake.Machine("lost", fake.WithField("nowhere", "spec", "clusterName"))
	kindless := fake.Machine("kindless", fake.WithField("None", "spec", "infrastructureRef", "kind"),
		fake.WithField("None", "spec", "bootstrap", "configRef", "kind"))
	require.NoError(w.t, w.client.Create(w.t.Context(), lost))
	require.NoError(w.t, w.client.Create(w.t.Context(), kindless))
	w.saysSo(lost, "Paused", "ClusterDoesNotExist")
	w.saysSo(kindless, "InfrastructureReady", "CRDNotFound")
	w.saysSo(kindless, "BootstrapConfigReady", "CRDNotFound")
	nodeless := fake.Machine("nodeless")
	w.withParts(nodeless)
	w.ready(nodeless)
	require.NoError(w.t, w.client.Delete(w.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "nodeless"}}))
	w.saysSo(nodeless, "NodeReady", "NodeDeleted")
	for _, m := range []*unstructured.Unstructured{lost, kindless, nodeless} {
		require.NoError(w.t, w.client.Delete(w.t.Context(), m))
		w.gone(m)
	}
}

// withParts creates a Machine and what it refers to.
func (w *world) withParts(m *unstructured.Unstructured) {
	w.t.Helper()
	require.NoError(w.t, w.client.Create(w.t.Context(), fake.BootstrapConfig(contract.V1Beta2, m.GetName())))
	require.NoError(w.t, w.client.Create(w.t.Context(), fake.InfraMachine(contract.V1Beta2, m.GetName())))
	require.NoError(w.t, w.client.Create(w.t.Context(), m))
}

func (w *world) saysSo(m *unstructured.Unstructured, kind, reason string) {
	w.t.Helper()
	w.eventually(m.GetName()+": "+kind+" to say "+reason, func() string {
		c, _, err := contract.ConditionsAt("status", "conditions").Find(w.get(m).Object, kind)
		if err != nil || c.Reason != reason {
			return describe(w.get(m))
		}
		return ""
	})
}

// diesSlowly deletes a Machine whose Node has pods and a volume: one pod is evicted, and one stays by a drain rule.
func (w *world) diesSlowly(m *unstructured.Unstructured) {
	w.t.Helper()
	node := m.GetName()
	w.eventually("a Node without taints", func() string { return w.untainted([]string{node}) })
	for _, app := range []string{"keeper", "goer"} {
		require.NoError(w.t, w.client.Create(w.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app + "-" + node, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
		}))
	}
	_, va := w.attach("disk-"+node, node)
	require.NoError(w.t, w.client.Delete(w.t.Context(), m))
	w.eventually("the wait for volumes", func() string { return w.waitsForVolumes(m, "* PersistentVolumeClaims: default/disk-"+node) })
	require.NoError(w.t, w.client.Delete(w.t.Context(), va))
	w.gone(m, fake.InfraMachine(contract.V1Beta2, node), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
}

// exactly checks that rights were enough, and none too many but those that are excused.
func (w *world) exactly(user *rights.User, excused map[string]string) {
	w.t.Helper()
	report, err := user.Report()
	require.NoError(w.t, err)
	for _, problem := range report.Problems(excused) {
		w.t.Error(problem)
	}
	w.t.Logf("%d requests, %d rights not used, all of them excused", report.Requests, len(report.Unused))
}
