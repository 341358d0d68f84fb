//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machine/userdata"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// hollowSet is a MachineSet of Cluster API v1beta1 that needs no infrastructure object, with a health check. Its Machines are real kubelets.
const hollowSet = `apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineSet
metadata: {name: hollow, namespace: default}
spec:
  clusterName: demo
  replicas: 2
  selector: {matchLabels: {pool: hollow}}
  template:
    metadata: {labels: {pool: hollow}}
    spec: {clusterName: demo, bootstrap: {dataSecretName: none}, infrastructureRef: {}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {name: hollow, namespace: default}
spec:
  clusterName: demo
  selector: {matchLabels: {pool: hollow}}
  unhealthyConditions:
  - {type: Ready, status: Unknown, timeout: 10s} # a kubelet that is only late on a busy machine is back by then
`

// kubeletWorld has the reconcilers of Machines, sets and health checks in this process, and a driver whose instances are kubelets.
type kubeletWorld struct {
	*world

	driver *hollowDriver
}

func newKubeletWorld(t *testing.T) *kubeletWorld {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	plane := hollowPlane(t)
	config := plane.Config()
	config.UserAgent, config.WarningHandler = managerAgent, rest.NoWarnings{} // v1beta1 is deprecated
	own := rest.CopyConfig(config)
	own.UserAgent = "the-test"
	live, err := client.NewWithWatch(own, client.Options{})
	require.NoError(t, err)
	w := &kubeletWorld{world: &world{t: t, plane: plane, client: live}, driver: newHollow(plane)}
	w.installCRDs("v1beta1")
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta1", "MachineSet", "MachineHealthCheck")
	require.NoError(t, err)
	require.NoError(t, cluster.InstallCRDs(t.Context(), plane.Config(), crds...))
	w.inProcess(config, ctrl.Options{}, w.reconcilers)
	return w
}

// reconcilers adds them to a manager. The first-boot data of a Machine are rendered when its instance is created, with a token of its own.
func (w *kubeletWorld) reconcilers(ctx context.Context, mgr ctrl.Manager) error {
	var tokens machine.JoinTokens
	boot := func(ctx context.Context, s *machine.Scope, _ provider.Request) ([]byte, error) {
		token, err := tokens.Token(ctx, s)
		if err != nil {
			return nil, err
		}
		doc, err := renderedFirstBoot(w.plane, token, userdata.Config{Node: userdata.Node{Name: s.State.Key.Name}, Kubelet: leased()})
		return doc.Bytes(), err
	}
	steps := machine.WithJoinTokens(machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: provider.Of(w.driver), UserData: boot, WithoutBootstrap: true, Poll: time.Second,
	}), tokens)
	ports, err := machine.PortsFromManager(ctx, mgr, machine.Options{})
	if err != nil {
		return err
	}
	kinds, err := contract.ClusterAPI(contract.V1Beta1)
	if err != nil {
		return err
	}
	machines, err := machine.New(kinds.Machine, ports, machine.Options{Steps: steps, Policy: ofSilentNodes()})
	if err != nil {
		return err
	}
	_, set := machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{})
	_, check := remediation.SetupWithManager(ctx, mgr, kinds, ports.Workload, remediation.Options{})
	return errors.Join(machines.AddToManager(ctx, mgr), set, check)
}

// running waits until the set has two Machines that are available, and returns them by the names of their Nodes.
func (w *kubeletWorld) running(set *unstructured.Unstructured) map[string]*unstructured.Unstructured {
	w.t.Helper()
	machines := map[string]*unstructured.Unstructured{}
	w.eventually("two Machines to be available", func() string {
		if n, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "availableReplicas"); n != 2 {
			return describe(w.get(set))
		}
		clear(machines)
		for _, m := range w.listed(machineV1Beta1) {
			if m.GetDeletionTimestamp() == nil {
				machines[m.GetName()] = &m
			}
		}
		return differs(len(machines), 2)
	})
	return machines
}

// endsNever starts a pod on a Node whose end takes its whole grace period of ten minutes, and asks for that.
func (w *kubeletWorld) endsNever(node string) *corev1.Pod {
	w.t.Helper()
	const long = 600
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ends-never"}, Spec: corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: new(int64(long)), Containers: []corev1.Container{{
			Name: "c", Image: "example.com/app", Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				Sleep: &corev1.SleepAction{Seconds: long},
			}},
		}},
	}}
	require.NoError(w.t, w.client.Create(w.t.Context(), pod))
	w.eventually("the pod to run", func() string {
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(pod), pod))
		if !isAvailable(pod) {
			return fmt.Sprint(pod.Status)
		}
		return ""
	})
	require.NoError(w.t, w.client.Delete(w.t.Context(), pod))
	return pod
}

// left waits until no pod, Node or instance is left but those of some Nodes, and no join token.
func (w *kubeletWorld) left(nodes ...string) {
	w.t.Helper()
	alive := map[string]bool{}
	for _, name := range nodes {
		alive[name] = true
	}
	w.eventually("nothing to be left of Machines that are gone", func() string {
		var pods corev1.PodList
		require.NoError(w.t, w.client.List(w.t.Context(), &pods))
		for i := range pods.Items {
			if !alive[pods.Items[i].Spec.NodeName] {
				return "pod " + pods.Items[i].Name + " on " + pods.Items[i].Spec.NodeName
			}
		}
		var have corev1.NodeList
		require.NoError(w.t, w.client.List(w.t.Context(), &have))
		for i := range have.Items {
			if !alive[have.Items[i].Name] {
				return "Node " + have.Items[i].Name
			}
		}
		var secrets corev1.SecretList
		require.NoError(w.t, w.client.List(w.t.Context(), &secrets, client.InNamespace(metav1.NamespaceSystem),
			client.MatchingFields{"type": string(corev1.SecretTypeBootstrapToken)}))
		if len(secrets.Items) > 0 {
			return "token " + secrets.Items[0].Name
		}
		instances, err := w.driver.List(w.t.Context(), provider.Request{Cluster: "demo"})
		require.NoError(w.t, err)
		return differs(len(instances), len(nodes))
	})
}

// A kubelet is killed while a pod on it is terminating, and others run behind a budget. The check marks its Machine, the set deletes it, the
// drain lets its pods go as the policy for silent Nodes says, its instance and its Node go, and another kubelet takes its place.
func TestE2EAMachineWhoseKubeletDiesWithPodsTerminatingIsRemediatedToTheEnd(t *testing.T) {
	t.Parallel()
	w := newKubeletWorld(t)
	objects := w.apply(hollowSet)
	set := objects[0]
	before := w.running(set)
	var names []string
	for name, m := range before {
		names = append(names, name)
		uid := string(m.GetUID())
		t.Cleanup(func() { tellOf(t, w.driver.Kubelet(uid)) })
	}
	run := w.runWorkload("on-kubelets", names)
	dead, survivor := before[names[0]], before[names[1]]
	stuck := w.endsNever(names[0])
	start := time.Now()
	took := func(what string) { t.Logf("%s after %s", what, time.Since(start).Round(time.Second)) }
	w.driver.Kubelet(string(dead.GetUID())).Kill()
	require.NotNil(t, w.get(stuck).GetDeletionTimestamp(), "it is still terminating")

	w.eventually("the Machine to be deleted", func() string {
		if fresh := w.get(dead); fresh != nil && fresh.GetDeletionTimestamp() == nil {
			return describe(fresh)
		}
		return ""
	})
	took("it is marked and deleted")
	w.gone(dead, w.node(names[0]))
	took("it is gone with its Node")
	require.Nil(t, w.driver.Kubelet(string(dead.GetUID())))

	after := w.running(set)
	took("two Machines are available")
	require.Contains(t, after, survivor.GetName())
	delete(after, survivor.GetName())
	for name := range after {
		require.NotEqual(t, dead.GetName(), name)
		w.left(survivor.GetName(), name)
	}
	took("its pods are gone")
	w.eventually("pods on the other Node", func() string { return w.spread("on-kubelets", []string{survivor.GetName()}) })

	events, err := w.plane.Audit().Events()
	require.NoError(t, err)
	events = events.From(managerAgent).Writes()
	t.Logf("what the reconcilers wrote: %s", events)
	deleted := events.Where(func(e cluster.AuditEvent) bool { return e.Verb == "delete" && e.Code < 300 })
	require.Len(t, deleted.To("cluster.x-k8s.io", "machines"), 1)
	require.Len(t, deleted.To("", "nodes"), 1)
	require.Empty(t, deleted.To("", "pods").Where(func(e cluster.AuditEvent) bool { return e.Name == stuck.Name }),
		"what the kubelet cannot end goes with its Node")

	require.NoError(t, w.client.Delete(t.Context(), run.budget))
	require.NoError(t, w.client.Delete(t.Context(), run.deployment))
	require.NoError(t, w.client.Delete(t.Context(), set))
	w.gone(set)
	w.left()
}
