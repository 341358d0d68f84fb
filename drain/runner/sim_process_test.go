package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// simDrain is the request to drain a Node. It outlives processes.
type simDrain struct {
	node   string
	uid    types.UID
	doneAt time.Time // the latest Done without a look since that said otherwise
	over   bool      // no more Steps: done and released, cancelled, or the Node is gone
}

// simProcess is one process with a Runner, its caches and its reconciler.
type simProcess struct {
	client.Writer
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	s       *sim
	id      int
	runner  *runner.Runner
	cancel  context.CancelFunc
	exited  chan error
	ended   bool
	clock   *simClock
	pods    *simPods
	budgets *simBudgets // nil in runs without
	nodes   map[string]*corev1.Node
	lastNew time.Time
	due     map[string]time.Time // next Step by Node
	patches int
	book    simBook

	mu    sync.Mutex
	wakes map[string]time.Time
}

// start begins a new process over the same cluster.
func (s *sim) start() {
	s.procs++
	p := &simProcess{
		s: s, id: s.procs, clock: &simClock{}, nodes: maps.Clone(s.nodes), exited: make(chan error, 1),
		due: map[string]time.Time{}, wakes: map[string]time.Time{}, book: newSimBook(runner.ProbeInterval),
	}
	p.pods = &simPods{p: p, nodes: map[string]*simNodePods{}}
	clients, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://simulated", QPS: -1}, &http.Client{Transport: p})
	require.NoError(s.t, err)
	cfg := runner.Config{
		Nodes: p, Pods: p.pods, Evictor: s.setup.breakEvictor(runner.NewRESTEvictor(clients)), Clock: p.clock,
	}
	if s.setup.budgets {
		p.budgets = &simBudgets{p: p}
		cfg.Budgets = p.budgets.in
		s.after(s.upTo(2*time.Second), p.budgets.fill)
	}
	p.runner, err = runner.New(cfg)
	require.NoError(s.t, err)
	if s.setup.informers {
		p.budgets.store = p.runner.Follow().Budgets()
	}
	p.runner.SetWorkers(s.setup.workers)
	ctx, cancel := context.WithCancel(s.t.Context())
	p.cancel = cancel
	if s.setup.wakes {
		require.NoError(s.t, p.runner.Source().Start(ctx, p))
	}
	run := p.runner.Start
	if s.setup.turns {
		run = p.sendInTurns
	}
	go func() { p.exited <- run(ctx) }()
	s.proc = p
	synctest.Wait()
	s.note("process %d starts", p.id)
	for _, d := range s.drains {
		p.stepAt(d, time.Now().Add(s.upTo(time.Second)))
	}
}

// sendInTurns is a caller with a schedule of its own: it sends one request after the other, and looks for the next one now and then.
func (p *simProcess) sendInTurns(ctx context.Context) error {
	const now = 100 * time.Millisecond
	for ctx.Err() == nil {
		sent, again := p.runner.SendNext(ctx)
		if sent {
			continue
		}
		if again == 0 || again > now {
			again = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
	return nil
}

// stop ends the process. Nothing may be sent afterwards, and Start has to return without waiting for the API server.
func (p *simProcess) stop() {
	s := p.s
	s.takeIn() // what was sent before is none of the crash's
	p.ended = true
	p.cancel()
	began := time.Now()
	synctest.Wait()
	select {
	case err := <-p.exited:
		if err != nil || !began.Equal(time.Now()) {
			s.fail("Start returned %v after %s", err, time.Since(began))
		}
	default:
		s.fail("Start did not return when its context ended")
	}
	node := slices.Sorted(maps.Keys(p.nodes))[0]
	//nolint:forbidigo // the process's own context has ended
	_, err := p.runner.Step(context.Background(), runner.Request{Node: p.nodes[node]})
	if !errors.Is(err, runner.ErrStopped) && !s.setup.turns {
		s.fail("Step after the end returned %v", err)
	}
	s.takeIn()
	s.proc = nil
}

// AddAfter is the reconciler's queue as [runner.Runner.Source] sees it.
func (p *simProcess) AddAfter(req reconcile.Request, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(d)
	if old, ok := p.wakes[req.Name]; !ok || at.Before(old) {
		p.wakes[req.Name] = at
	}
	p.s.notify()
}

func (p *simProcess) takeWakes() {
	p.mu.Lock()
	wakes := p.wakes
	p.wakes = map[string]time.Time{}
	p.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(wakes)) {
		for _, d := range p.s.drains {
			if d.node == node && !d.over && wakes[node].Before(p.due[node]) {
				p.stepAt(d, wakes[node])
			}
		}
	}
}

// stepAt plans the next Step; an earlier plan for the Node is void.
func (p *simProcess) stepAt(d *simDrain, at time.Time) {
	if d.over {
		return
	}
	p.due[d.node] = at
	p.s.at(at, func() {
		if p.s.proc == p && !d.over && p.due[d.node].Equal(at) {
			p.due[d.node] = time.Time{}
			p.reconcile(d)
		}
	})
}

// reconcile is one pass of a sane owner.
func (p *simProcess) reconcile(d *simDrain) {
	s := p.s
	node := p.nodes[d.node]
	if node == nil || node.UID != d.uid {
		s.note("node %s is gone", d.node)
		p.release(d)
		d.over = true
		return
	}
	before, patches, began := node.DeepCopy(), p.patches, time.Now()
	view := p.look(node)
	result, err := p.runner.Step(context.Background(), s.request(node)) //nolint:forbidigo // Step has to come back by itself
	s.count["steps"]++
	s.note("step %s: done=%t %+v err=%v", node.Name, result.Done, result.Counts, err)
	if took := time.Since(began); took != 0 || p.patches-patches > 1 {
		s.fail("Step of %s took %s and made %d calls", node.Name, took, p.patches-patches)
	}
	s.checkStep(d, before, node, view, result, err)
	switch {
	case err != nil:
		p.stepAt(d, time.Now().Add(time.Second+s.upTo(4*time.Second)))
	case !result.Done:
		p.stepAt(d, time.Now().Add(result.RequeueAfter))
	case s.chance(3) && !s.calm: // asking again after Done is allowed
		p.stepAt(d, time.Now().Add(s.upTo(20*time.Second)))
	default:
		s.note("done %s", d.node)
		s.count["done"]++
		p.release(d)
		d.over = true
	}
}

// skipLabel on a pod lets runs with rules ignore it.
const skipLabel = "skip"

// request is what the owner passes to Step, in some runs with rules of its own.
func (s *sim) request(node *corev1.Node) runner.Request {
	req := runner.Request{Node: node, Owner: types.NamespacedName{Name: node.Name}}
	if s.setup.rules {
		req.Rules = append([]drain.Rule{ownRule}, drain.DefaultRules()...)
	}
	return req
}

func ownRule(pod *corev1.Pod, prev drain.Verdict) (drain.Verdict, error) {
	prev.Order = orderOf(pod)
	if pod.Labels[skipLabel] != "" {
		prev.Action, prev.Reason = drain.Ignore, "Skipped"
	}
	return prev, nil
}

func orderOf(pod *corev1.Pod) int32 {
	return map[string]int32{"tb": 10, "tc": 20}[pod.Labels["tier"]]
}

func (p *simProcess) release(d *simDrain) {
	p.runner.Release(d.node)
	p.book.released(d.node)
}

// parseCordon accepts the patch that a cordon or an uncordon is, and nothing else.
func parseCordon(obj client.Object, patch client.Patch) (uid types.UID, on bool, err error) {
	data, err := patch.Data(obj)
	if err != nil {
		return "", false, err
	}
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(data, &ops); err != nil {
		return "", false, err
	}
	if len(ops) != 2 || ops[0].Op != "test" || ops[0].Path != "/metadata/uid" || ops[1].Path != "/spec/unschedulable" {
		return "", false, fmt.Errorf("not a cordon: %s", data)
	}
	on, _ = ops[1].Value.(bool)
	return types.UID(fmt.Sprint(ops[0].Value)), on, nil
}

// Patch is the cordon's way to the API server.
func (p *simProcess) Patch(_ context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	s := p.s
	if slices.Contains(options, client.PatchOption(client.DryRunAll)) {
		return errors.New("nothing is known of field managers")
	}
	p.patches++
	uid, on, err := parseCordon(obj, patch)
	if err != nil {
		s.fail("unexpected patch of node %s: %v", obj.GetName(), err)
		return err
	}
	if s.trouble.has(troubleCordon) && !s.calm && s.chance(4) {
		return apierrors.NewInternalError(errors.New("etcd is slow"))
	}
	node := s.nodes[obj.GetName()]
	switch {
	case node == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, obj.GetName())
	case uid != node.UID:
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, obj.GetName(), nil)
	}
	if node.Spec.Unschedulable != on { // a patch that changes nothing is not stored
		s.schedulable(node.Name, !on)
	}
	if into, ok := obj.(*corev1.Node); ok {
		s.nodes[obj.GetName()].DeepCopyInto(into)
	}
	if s.trouble.has(troubleCordon) && !s.calm && s.chance(4) {
		return errors.New("read: connection reset by peer") // stored all the same
	}
	return nil
}

func (s *sim) schedulable(name string, yes bool) {
	node := s.nodes[name].DeepCopy()
	node.Spec.Unschedulable = !yes
	s.writeNode(name, node)
	s.note("node %s schedulable=%t", name, yes)
	if yes {
		s.facts.uncordoned[name] = time.Now()
		s.facts.undone[name]++
		return
	}
	if app := s.apps[s.rng.IntN(len(s.apps))]; s.chance(2) && (app.kind == appReplicaSet || app.kind == appBare) {
		s.serial++
		late := fmt.Sprintf("%s-late-%d", app.name, s.serial)
		s.after(s.upTo(bindLag), func() { s.bindLate(app, late, node.UID) })
	}
}

// bindLate is a scheduler that chose the Node before the cordon.
func (s *sim) bindLate(app *simApp, name string, uid types.UID) {
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		if s.nodes[node].UID == uid {
			s.bind(app, name, s.nodes[node], false)
		}
	}
}

// nodeChanged brings a Node into the process's cache, in order and late.
func (p *simProcess) nodeChanged(name string, node *corev1.Node) {
	at := time.Now().Add(p.s.upTo(p.s.setup.nodeLag))
	if at.Before(p.lastNew) {
		at = p.lastNew
	}
	p.lastNew = at
	p.s.at(at, func() {
		if p.s.proc != p {
			return
		}
		if node == nil {
			delete(p.nodes, name)
		} else {
			p.nodes[name] = node
		}
		for _, d := range p.s.drains {
			if d.node == name {
				p.stepAt(d, time.Now())
			}
		}
	})
}

// view is what a Step is about to read from the caches.
type simView struct {
	node    string
	pods    []*corev1.Pod
	synced  bool // the pods
	read    bool // Step can go on from here: the budgets are synced too, or not needed
	budgets map[types.NamespacedName]*policyv1.PodDisruptionBudget
}

func (p *simProcess) look(node *corev1.Node) simView {
	v := simView{node: node.Name, budgets: map[types.NamespacedName]*policyv1.PodDisruptionBudget{}}
	p.pods.mu.Lock()
	if n := p.pods.nodes[node.Name]; n != nil {
		v.synced = n.synced && n.err == nil
		for _, key := range inOrder(n.pods) {
			v.pods = append(v.pods, n.pods[key])
		}
	}
	p.pods.mu.Unlock()
	v.read = v.synced
	if p.budgets == nil {
		return v
	}
	p.budgets.mu.Lock()
	defer p.budgets.mu.Unlock()
	v.read = v.synced && (p.budgets.synced || len(v.pods) == 0 && !p.s.setup.informers)
	for key, pdb := range p.budgets.items {
		if slices.ContainsFunc(v.pods, func(pod *corev1.Pod) bool { return pod.Namespace == key.Namespace }) {
			v.budgets[key] = pdb
		}
	}
	return v
}
