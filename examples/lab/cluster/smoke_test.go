//go:build e2e

package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/internal/apitest/published"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

const smokeAgent = "smoke-test"

// One control plane serves all of it, because a start costs seconds; the parts build on each other.
func TestAControlPlaneRunsPodsSurvivesCrashesAndLeavesNothingBehind(t *testing.T) {
	parent := t.TempDir()
	plane, err := Start(t.Context(), Options{
		Dir: parent, Log: testLog{t}, PodTermination: time.Second, ManagedNodes: "dead!=true",
		AuditObjects: []schema.GroupResource{{Resource: "pods"}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	config := plane.Config()
	config.UserAgent = smokeAgent
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	s := &smoke{plane: plane, client: client}

	parts := []struct {
		name string
		run  func(*testing.T)
	}{
		{"a new Node becomes Ready and untainted", s.nodeBecomesReady},
		{"a Deployment's pods run on it", s.podsRun},
		{"an evicted pod goes and is replaced", s.evictedPodGoes},
		{"the audit log counts each request once", s.auditCounts},
		{"no kubelet starts beside kwok", s.kubeletIsRefused},
		{"a user has only the rights that RBAC gives", s.userIsLimited},
		{"Cluster API's own CRDs can be installed", s.crdsInstall},
		{"every component can be killed and restarted", s.restart},
		{"every component can be frozen and thawed", s.freeze},
	}
	for _, part := range parts {
		if !t.Run(part.name, part.run) {
			return
		}
	}

	require.NoError(t, plane.Stop())
	require.Empty(t, processesWith(t, parent), "processes are left")
	require.Empty(t, namesIn(t, parent), "files are left")
	require.NoError(t, plane.Stop(), "a second Stop")
	require.ErrorIs(t, plane.Kill(Etcd), ErrStopped)
	require.ErrorIs(t, plane.Freeze(Etcd), ErrStopped)
	_, err = plane.Audit().Events()
	require.ErrorIs(t, err, ErrStopped)
	require.Empty(t, plane.Died(), "no component ended by itself")
}

type smoke struct {
	plane  *ControlPlane
	client *kubernetes.Clientset
}

func (s *smoke) nodeBecomesReady(t *testing.T) {
	_, err := s.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-1", Labels: map[string]string{corev1.LabelHostname: "node-1"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the Node is Ready and has no taint", func(ctx context.Context) (bool, error) {
		node, err := s.client.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return len(node.Spec.Taints) == 0, nil
			}
		}
		return false, nil
	})
}

func (s *smoke) podsRun(t *testing.T) {
	labels := map[string]string{"app": "web"}
	replicas := int32(2)
	_, err := s.client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, pod := range s.waitForPods(t, 2) {
		require.Equal(t, "node-1", pod.Spec.NodeName)
		require.NotEmpty(t, pod.Status.PodIP)
	}
}

// waitForPods returns the running, ready pods that are not being deleted, as soon as there are n and no other.
func (s *smoke) waitForPods(t *testing.T, n int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, "the pods run", func(ctx context.Context) (bool, error) {
		list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, err
		}
		pods = list.Items
		for i := range pods {
			if pods[i].DeletionTimestamp != nil || !isReady(&pods[i]) {
				return false, nil
			}
		}
		return len(pods) == n, nil
	})
	return pods
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning
		}
	}
	return false
}

func (s *smoke) evictedPodGoes(t *testing.T) {
	victim := s.waitForPods(t, 2)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	events, err := s.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + victim.Name, ResourceVersion: victim.ResourceVersion,
	})
	require.NoError(t, err)
	defer events.Stop()
	require.NoError(t, s.client.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: victim.Name, Namespace: victim.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))},
	}))
	terminating, gone := false, false
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		require.True(t, ok, "%v", event)
		if gone = event.Type == watch.Deleted; gone {
			break
		}
		terminating = terminating || pod.DeletionTimestamp != nil
	}
	require.True(t, terminating, "it takes PodTermination to go")
	require.True(t, gone, "the evicted pod is gone")
	for _, pod := range s.waitForPods(t, 2) {
		require.NotEqual(t, victim.UID, pod.UID)
	}
}

func (s *smoke) auditCounts(t *testing.T) {
	audit := s.plane.Audit()
	all, err := audit.Events()
	require.NoError(t, err)
	evictions := all.From(smokeAgent).Writes().To("", "pods")
	require.Len(t, evictions, 1, "%s", all)
	require.Equal(t, "eviction", evictions[0].Subresource)
	require.Equal(t, 201, evictions[0].Code)
	require.Equal(t, "admin", evictions[0].User)
	require.Contains(t, string(evictions[0].Sent), `"kind":"Eviction"`)
	require.Contains(t, string(evictions[0].Answer), `"status":"Success"`)
	require.NotEmpty(t, all.From("kwok/v0.8.0").To("", "pods"), "%s", all)

	mark, err := audit.Mark()
	require.NoError(t, err)
	const requests = 50
	for range requests {
		_, err := s.client.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		_, err = s.client.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	since, err := audit.Since(mark)
	require.NoError(t, err)
	require.Len(t, since.From(smokeAgent), 2*requests, "%s", since)
	require.Len(t, since.From(smokeAgent).Writes(), requests, "%s", since)
	require.Empty(t, since.From(smokeAgent)[0].Sent, "only writes to what AuditObjects lists have bodies")
}

func (s *smoke) userIsLimited(t *testing.T) {
	config, err := s.plane.ConfigFor("a-user", "some-group")
	require.NoError(t, err)
	path := t.TempDir() + "/kubeconfig"
	require.NoError(t, WriteKubeconfig(path, config))
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, `"a-user"`)
}

func (s *smoke) kubeletIsRefused(t *testing.T) {
	_, err := s.plane.StartKubelet(KubeletOptions{Name: "node-2"})
	require.ErrorIs(t, err, ErrManagedByKwok)
	_, err = s.plane.StartKubelet(KubeletOptions{Name: "../node"})
	require.ErrorContains(t, err, "the name is that of a Node")
}

func (s *smoke) crdsInstall(t *testing.T) {
	crds, err := ClusterAPICRDs(t.Context(), "v1beta2", "Machine", "Cluster")
	require.NoError(t, err)
	for range 2 { // the second time replaces them
		require.NoError(t, InstallCRDs(t.Context(), s.plane.Config(), crds...))
	}
	client, err := dynamic.NewForConfig(s.plane.Config())
	require.NoError(t, err)
	list, err := client.Resource(schema.GroupVersionResource{
		Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines",
	}).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
	_, err = ClusterAPICRDs(t.Context(), "v1beta2", "Potato")
	require.ErrorIs(t, err, published.ErrNoCRD)
	_, err = ClusterAPICRDs(t.Context(), "v7", "Machine")
	require.ErrorIs(t, err, published.ErrNoCRD)
}

func (s *smoke) restart(t *testing.T) {
	require.NoError(t, s.plane.Kill(APIServer))
	_, running := s.plane.PID(APIServer)
	require.False(t, running)
	_, err := s.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.Error(t, err, "there is no API server")
	require.NoError(t, s.plane.Kill(APIServer), "killing it twice")
	require.NoError(t, s.plane.Kill(Etcd))
	for _, c := range Components() {
		before, _ := s.plane.PID(c)
		require.NoError(t, s.plane.Restart(t.Context(), c))
		after, running := s.plane.PID(c)
		require.True(t, running)
		require.NotEqual(t, before, after)
	}
	require.ErrorIs(t, s.plane.Kill("kubelet"), ErrUnknownComponent)

	_, err = s.client.AppsV1().Deployments("default").Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{})
	require.NoError(t, err, "the data are still there")
	s.waitForPods(t, 4)
}

// freeze leaves all components frozen, for Stop.
func (s *smoke) freeze(t *testing.T) {
	require.ErrorIs(t, s.plane.Freeze("kubelet"), ErrUnknownComponent)
	reads := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := s.client.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
		return err
	}
	for _, c := range []Component{APIServer, Etcd} {
		require.NoError(t, s.plane.Freeze(c))
		eventually(t, "no answer", func(ctx context.Context) (bool, error) {
			return errors.Is(reads(ctx), context.DeadlineExceeded), nil
		})
		require.NoError(t, s.plane.Thaw(c))
		eventually(t, "an answer", func(ctx context.Context) (bool, error) { return reads(ctx) == nil, nil })
	}
	require.NoError(t, s.plane.Freeze(Scheduler))
	require.NoError(t, s.plane.Restart(t.Context(), Scheduler), "a frozen component can be restarted")
	require.NoError(t, s.plane.Kill(Scheduler))
	require.ErrorIs(t, s.plane.Freeze(Scheduler), ErrNotRunning)
	require.NoError(t, s.plane.Restart(t.Context(), Scheduler))
	for _, c := range Components() {
		require.NoError(t, s.plane.Freeze(c))
	}
}

// testLog lets progress appear under the test's name.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Logf("%s", line)
	return len(line), nil
}

// PID returns the process ID of a component, and false when it is not running.
func (cp *ControlPlane) PID(c Component) (int, bool) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	p, ok := cp.running[c]
	if !ok {
		return 0, false
	}
	select {
	case <-p.ended:
		return 0, false
	default:
		return p.cmd.Process.Pid, true
	}
}
