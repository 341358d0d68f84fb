package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/fake"
)

const exitUsage = 2

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	m.Run()
}

type podOption func(*corev1.Pod)

// newPod is a running pod of a ReplicaSet.
func newPod(node, name string, options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	owned("apps/v1", "ReplicaSet", "web")(pod)
	for _, option := range options {
		option(pod)
	}
	return pod
}

func owned(apiVersion, kind, name string) podOption {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	}
}

func bare(pod *corev1.Pod) { pod.OwnerReferences = nil }

func app(name string) podOption {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": name} }
}

func inNamespace(name string) podOption { return func(pod *corev1.Pod) { pod.Namespace = name } }

func withScratch(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func critical(pod *corev1.Pod) {
	pod.Spec.PriorityClassName, pod.Spec.Priority = "system-cluster-critical", new(int32(2_000_000_000))
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"pool": "old"}}}
}

// newBudget keeps so many pods of an app.
func newBudget(name string, keep, healthy int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(keep)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, ExpectedPods: healthy, CurrentHealthy: healthy, DesiredHealthy: keep, DisruptionsAllowed: max(0, healthy-keep),
		},
	}
}

// stage is a simulated cluster.
type stage struct {
	t     *testing.T
	store *fake.Store
	live  client.WithWatch
}

// newStage has Nodes, and pods that start and end within milliseconds. Controllers do not create pods again.
func newStage(t *testing.T, nodes ...string) *stage {
	t.Helper()
	s := &stage{t: t, store: fake.NewStore(fake.Options{})}
	s.live = s.store.Client()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	loops := fake.AllLoops()
	loops.GarbageCollector, loops.Workloads = false, false // the owners of the Pods do not exist
	loops.StopPod = 20 * time.Millisecond
	ended := s.store.Start(ctx, loops)
	t.Cleanup(func() { cancel(); ended() })
	for _, name := range nodes {
		s.create(newNode(name))
	}
	return s
}

func (s *stage) create(objects ...client.Object) {
	s.t.Helper()
	for _, obj := range objects {
		require.NoError(s.t, s.live.Create(s.t.Context(), obj))
	}
}

// pods creates pods and waits until they are ready, because budgets count no others.
func (s *stage) pods(pods ...*corev1.Pod) {
	s.t.Helper()
	for _, pod := range pods {
		s.create(pod)
	}
	s.until("pods are ready", func() bool {
		for _, pod := range s.allPods() {
			if pod.Status.Phase != corev1.PodRunning {
				return false
			}
		}
		return true
	})
}

// budget creates a budget and waits until it is counted.
func (s *stage) budget(name string, keep int32) *policyv1.PodDisruptionBudget {
	s.t.Helper()
	pdb := newBudget(name, keep, 0)
	s.create(pdb)
	s.until("the budget is counted", func() bool {
		require.NoError(s.t, s.live.Get(s.t.Context(), client.ObjectKeyFromObject(pdb), pdb))
		return pdb.Status.ObservedGeneration == pdb.Generation && pdb.Status.ExpectedPods > 0
	})
	return pdb
}

func (s *stage) allPods() []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	require.NoError(s.t, s.live.List(context.WithoutCancel(s.t.Context()), &list))
	return list.Items
}

func (s *stage) node(name string) *corev1.Node {
	s.t.Helper()
	var node corev1.Node
	require.NoError(s.t, s.live.Get(s.t.Context(), client.ObjectKey{Name: name}, &node))
	return &node
}

func (s *stage) until(what string, is func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			s.t.Fatal("not in time: " + what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// writes counts the requests of drainctl that were made to change something.
func (s *stage) writes() int {
	return s.store.CountRequests(func(r fake.Request) bool { return r.IsWrite() && r.UserAgent == userAgent })
}

func evictions(r fake.Request) bool { return r.Subresource == "eviction" }

// requests matches those of drainctl; an empty verb is any.
func requests(verb, kind string) func(fake.Request) bool {
	return func(r fake.Request) bool {
		return (verb == "" || r.Verb == verb) && r.GVK.Kind == kind && r.Subresource == "" && r.UserAgent == userAgent
	}
}

// told is what a command printed.
type told struct {
	code           int
	stdout, stderr string
}

func (s *stage) program(stdout, stderr *screen) *program {
	return &program{
		stdout: stdout, stderr: stderr, now: time.Now, quick: true,
		connect: func(options) (*rest.Config, error) {
			cfg := s.store.RESTConfig()
			cfg.UserAgent = userAgent
			return cfg, nil
		},
	}
}

// do runs a command to its end.
func (s *stage) do(args ...string) told {
	s.t.Helper()
	var stdout, stderr screen
	code := s.program(&stdout, &stderr).execute(s.t.Context(), args)
	return told{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// start runs a command that is stopped, as by Ctrl-C, by the first of the returned functions and awaited by the second.
func (s *stage) start(args ...string) (stdout *screen, interrupt func(), wait func() told) {
	s.t.Helper()
	var out, errs screen
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan int, 1)
	go func() { ended <- s.program(&out, &errs).execute(ctx, args) }()
	s.t.Cleanup(cancel)
	return &out, cancel, func() told { return told{code: <-ended, stdout: out.String(), stderr: errs.String()} }
}

// screen may be read while it is written.
type screen struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.String()
}

func numbered(node, name string, n int, options ...podOption) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, newPod(node, fmt.Sprintf("%s-%d", name, i), options...))
	}
	return pods
}

func newDaemonSet(namespace, name string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
			},
		},
	}
}
