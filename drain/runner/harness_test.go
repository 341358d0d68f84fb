package runner

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// memorySource is a PodSource that tests fill by hand.
type memorySource struct {
	mu      sync.Mutex
	pods    map[string]map[types.UID]*corev1.Pod
	lost    bool
	err     error
	changed func(string)
}

func (s *memorySource) Pods(node string) ([]*corev1.Pod, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []*corev1.Pod
	for _, pod := range s.pods[node] {
		pods = append(pods, pod)
	}
	return pods, !s.lost && s.err == nil, s.err
}

func (s *memorySource) Release(string) {}

func (s *memorySource) Run(ctx context.Context, changed func(string)) error {
	s.mu.Lock()
	s.changed = changed
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (s *memorySource) put(pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		if s.pods[pod.Spec.NodeName] == nil {
			s.pods[pod.Spec.NodeName] = map[types.UID]*corev1.Pod{}
		}
		s.pods[pod.Spec.NodeName][pod.UID] = pod
	}
}

func (s *memorySource) remove(node string, uid types.UID) {
	s.mu.Lock()
	delete(s.pods[node], uid)
	changed := s.changed
	s.mu.Unlock()
	if changed != nil {
		changed(node)
	}
}

// memoryBudgets are budgets in memory.
type memoryBudgets struct {
	mu   sync.Mutex
	list []*policyv1.PodDisruptionBudget
}

// in is the Budgets of a Config.
func (b *memoryBudgets) in(_ context.Context, namespace string) (found []*policyv1.PodDisruptionBudget, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pdb := range b.list {
		if pdb.Namespace == namespace {
			found = append(found, pdb)
		}
	}
	return found, nil
}

func (b *memoryBudgets) set(allowed int32, version int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := intstr.FromInt32(1)
	b.list = []*policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pdb", ResourceVersion: strconv.Itoa(version)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			DisruptionsAllowed: allowed, ExpectedPods: 9, DesiredHealthy: 8, CurrentHealthy: 8 + allowed,
		},
	}}
}

// memoryEvictor records requests as "name", "name 7s" with a grace period, or "delete name", and answers them with answer, or accepts.
type memoryEvictor struct {
	mu     sync.Mutex
	refs   []PodRef
	sent   []string
	answer func(ctx context.Context, ref PodRef) error
}

func (e *memoryEvictor) Evict(ctx context.Context, ref PodRef, grace *int64) error {
	return e.request(ctx, ref, "", grace)
}

func (e *memoryEvictor) Delete(ctx context.Context, ref PodRef, grace *int64) error {
	return e.request(ctx, ref, "delete ", grace)
}

func (e *memoryEvictor) request(ctx context.Context, ref PodRef, verb string, grace *int64) error {
	text := verb + ref.Name
	if grace != nil {
		text += " " + (time.Duration(*grace) * time.Second).String()
	}
	e.mu.Lock()
	e.refs, e.sent = append(e.refs, ref), append(e.sent, text)
	answer := e.answer
	e.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx, ref)
}

func (e *memoryEvictor) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.sent)
}

func (e *memoryEvictor) answerWith(f func(ctx context.Context, ref PodRef) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

// answer is what the API server answers to every request from now on.
func (g *rig) answer(err error) {
	g.evictor.answerWith(func(context.Context, PodRef) error { return err })
}

// memoryNodes records patches.
type memoryNodes struct {
	client.Writer
	mu      sync.Mutex
	patches []string
	err     error
	version string
}

func (n *memoryNodes) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	n.patches = append(n.patches, obj.GetName()+" "+string(patch.Type())+" "+string(data))
	obj.SetResourceVersion(n.version)
	return n.err
}

// rig is a Runner with its surroundings in the hands of the test.
type rig struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	pods    *memorySource
	budgets *memoryBudgets
	evictor *memoryEvictor
	nodes   *memoryNodes
	runner  *Runner
	events  int // of the Steps of resets
	stop    func()
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	g := &rig{
		t:       t,
		clock:   clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		pods:    &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}},
		budgets: &memoryBudgets{},
		evictor: &memoryEvictor{},
		nodes:   &memoryNodes{version: "100"},
	}
	cfg := Config{Nodes: g.nodes, Pods: g.pods, Evictor: g.evictor, Budgets: g.budgets.in, Clock: g.clock, Settle: -1}
	for _, f := range change {
		f(&cfg)
	}
	r, err := New(cfg)
	require.NoError(t, err)
	g.runner = r
	return g
}

// on puts Pods on a Node.
func (g *rig) on(node string, names ...string) {
	for _, name := range names {
		g.pods.put(pod(node, name))
	}
}

// gone removes Pods from a Node.
func (g *rig) gone(node string, names ...string) {
	for _, name := range names {
		g.pods.remove(node, types.UID("uid-"+name))
	}
}

// start runs the Runner until stop, or the end of the test.
func (g *rig) start() {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.runner.Start(ctx) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(g.t, err)
		case <-time.After(waitLimit):
			g.t.Fatal("Start did not return after its context had ended")
		}
	})
	g.t.Cleanup(g.stop)
	g.eventually("the runner runs", func() bool {
		g.pods.mu.Lock()
		defer g.pods.mu.Unlock()
		return g.pods.changed != nil
	})
}

func (g *rig) step(node string) Result {
	g.t.Helper()
	return g.stepWith(Request{Node: cordoned(node), Owner: types.NamespacedName{Name: "machine-of-" + node}})
}

// stepWith takes the Node n, cordoned, for a request without one.
func (g *rig) stepWith(req Request) Result {
	g.t.Helper()
	if req.Node == nil {
		req.Node = cordoned("n")
	}
	result, err := g.runner.Step(g.t.Context(), req)
	require.NoError(g.t, err)
	return result
}

// blocked steps, and wants blockers of these reasons.
func (g *rig) blocked(node string, want ...drain.Reason) Result {
	g.t.Helper()
	got := g.step(node)
	var reasons []drain.Reason
	for _, b := range got.Blockers {
		reasons = append(reasons, b.Reason)
	}
	require.Equal(g.t, want, reasons)
	return got
}

// send sends what may be sent now, one after the other, and returns how many there were. The Runner is not started then.
func (g *rig) send() (n int) {
	for sent := true; sent; n++ {
		sent, _ = g.runner.SendNext(g.t.Context())
	}
	return n - 1
}

// picked takes what may be in flight together from the queue.
func (g *rig) picked() (requests []*attempt) {
	for a, _ := g.runner.pick(); a != nil; a, _ = g.runner.pick() {
		requests = append(requests, a)
	}
	return requests
}

// waitLimit bounds every wait, so that what never comes ends a test by itself. Only how busy the machine is says how long what does come
// may take.
const waitLimit = time.Minute

func (g *rig) eventually(what string, ok func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(waitLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	g.t.Fatalf("waited in vain until %s; requests so far: %v", what, g.evictor.names())
}

func (g *rig) inFlight() int {
	g.runner.mu.Lock()
	defer g.runner.mu.Unlock()
	return g.runner.inFlight
}

// settled waits until no request is under way.
func (g *rig) settled(requests int) {
	g.t.Helper()
	g.eventually(fmt.Sprintf("%d requests have ended", requests), func() bool {
		return g.inFlight() == 0 && len(g.evictor.names()) == requests
	})
}

func (g *rig) wantRequests(want ...string) {
	g.t.Helper()
	require.ElementsMatch(g.t, want, g.evictor.names())
}

func cordoned(name string) *corev1.Node {
	n := schedulable(name, "200")
	n.Spec.Unschedulable = true
	return n
}

func schedulable(name, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
}

func pod(node, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

func exhausted() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget pdb needs 8 healthy pods and has 8 currently",
	}}
	return err
}
