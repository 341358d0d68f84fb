package runner_test

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/drain/runner"
)

// simTrouble is a set of kinds of trouble.
type simTrouble uint32

const (
	troubleCrash simTrouble = 1 << iota
	troubleClock
	troubleLostPods
	troubleLateBudgets
	troubleSlowCounts
	troubleBudgets // edited, added, deleted, two over one pod
	troublePods    // sick, finished, deleted by others
	troubleUncordon
	troubleCancel
	troubleNodes // replaced under the same name, deleted
	troubleSpace // a namespace terminates
	troubleCordon
	troubleThrottle
	troubleLogin
	troubleWebhook
	troubleAccess
	troubleLost // answers, connections, deadlines
	troubleContention
	troubleEndpoint
	allTrouble simTrouble = 1<<iota - 1
)

var troubleNames = []string{
	"crash", "clock", "lost-pods", "late-budgets", "slow-counts", "budgets", "pods", "uncordon", "cancel", "nodes", "namespace",
	"cordon", "throttle", "login", "webhook", "access", "lost-answers", "contention", "endpoint",
}

func (t simTrouble) has(kind simTrouble) bool { return t&kind != 0 }

func (t simTrouble) String() string {
	var names []string
	for i, name := range troubleNames {
		if t.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// simSetup does not change during a run.
type simSetup struct {
	workers            int
	latency            time.Duration
	podLag, budgetLag  time.Duration
	nodeLag            time.Duration
	budgets, informers bool
	wakes, rules       bool
	turns              bool          // requests are sent by Runner.SendNext, one at a time, and Start is not called
	empty              bool          // the first Node has no pods
	stuck              bool          // the cache of budgets sees nothing after its first list, and says that it is synced
	trouble            time.Duration // how long it lasts
	breakEvictor       func(runner.Evictor) runner.Evictor
}

// simFaults are what the API server suffers from at the moment.
type simFaults struct {
	throttled, refused, missing time.Time // until
	webhook, access             map[string]time.Time
}

func (s *sim) build(t *testing.T) {
	t.Helper()
	s.nodes, s.pods, s.budgets = map[string]*corev1.Node{}, map[types.NamespacedName]*simPod{}, map[types.NamespacedName]*simBudget{}
	s.spaces, s.facts = map[string]simSpace{}, simFacts{
		uncordoned: map[string]time.Time{}, undone: map[string]int{}, jumped: time.Now().Add(-time.Hour),
	}
	s.faults = simFaults{webhook: map[string]time.Time{}, access: map[string]time.Time{}}
	pick := func(choices ...int) int { return choices[s.rng.IntN(len(choices))] }
	s.setup = simSetup{
		workers: pick(1, 2, 5, 32),
		latency: time.Duration(pick(1, 20, 200, 1500)) * time.Millisecond, podLag: podLag / time.Duration(pick(1, 2, 20)),
		nodeLag: nodeLag / time.Duration(pick(1, 10, 100)), budgetLag: time.Duration(pick(10, 300, 3000)) * time.Millisecond,
		budgets: !s.chance(8), empty: s.chance(3), wakes: !s.chance(4), rules: s.chance(2),
		trouble:      time.Duration(pick(60, 180, 400)) * time.Second,
		breakEvictor: func(e runner.Evictor) runner.Evictor { return e },
	}
	s.setup.informers = s.setup.budgets && !s.chance(4)
	if s.setup.stuck = s.setup.budgets && s.chance(10); s.setup.stuck {
		s.trouble &^= troubleBudgets // what people do to budgets would never be seen
	}
	drained, spare := 1+s.rng.IntN(4), 1+s.rng.IntN(2)
	for i := range drained + spare {
		s.addNode(fmt.Sprintf("n%d", i+1))
	}
	for i := range 1 + s.rng.IntN(2) {
		s.spaces[fmt.Sprintf("ns%d", i+1)] = spaceActive
	}
	for i := range (2 + s.rng.IntN(5)) * pick(1, 1, 1, 1, 4) {
		s.addApp(i)
	}
	for i := range drained {
		name := fmt.Sprintf("n%d", i+1)
		s.drains = append(s.drains, &simDrain{node: name, uid: s.nodes[name].UID})
	}
	s.after(s.setup.trouble, s.endTrouble)
}

func (s *sim) addNode(name string) {
	s.writeNode(name, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: s.nextUID()}})
}

func (s *sim) addApp(i int) {
	spaces := slices.Sorted(maps.Keys(s.spaces))
	kinds := []simAppKind{appReplicaSet, appReplicaSet, appReplicaSet, appStatefulSet, appStatefulSet, appDaemonSet, appStatic, appBare}
	app := &simApp{
		ns: spaces[s.rng.IntN(len(spaces))], name: fmt.Sprintf("%c%d", 'a'+s.rng.IntN(3), i), kind: kinds[s.rng.IntN(len(kinds))],
		replicas: 1 + s.rng.IntN(8), grace: []int64{0, 1, 10, 30}[s.rng.IntN(4)], readyIn: 10*time.Millisecond + s.upTo(8*time.Second),
		tolerates: s.chance(8),
	}
	app.guarded = (app.kind == appReplicaSet || app.kind == appStatefulSet) && s.chance(5)
	s.apps = append(s.apps, app)
	nodes := slices.Sorted(maps.Keys(s.nodes))
	if s.setup.empty && len(nodes) > 2 {
		nodes = nodes[1:] // the first one starts empty
	}
	for j := range app.replicas {
		s.bind(app, fmt.Sprintf("%s-%d", app.name, j), s.nodes[nodes[s.rng.IntN(len(nodes))]], false)
	}
	for _, key := range inOrder(s.pods) {
		if p := s.pods[key]; p.app == app && !s.chance(5) {
			p.obj.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: readiness(true)} // it was not observed yet
		}
	}
	if app.kind != appDaemonSet && app.kind != appStatic && (app.guarded || !s.chance(4)) {
		s.createBudget(s.newBudget(app, "main"))
	}
}

// newBudget draws a budget over one app, or over all apps of a tier.
func (s *sim) newBudget(app *simApp, name string) *policyv1.PodDisruptionBudget {
	selector := map[string]string{"app": app.name}
	if !s.setup.stuck && s.chance(6) {
		selector = map[string]string{"tier": app.labels()["tier"]}
	}
	if app.guarded {
		selector = map[string]string{"app": app.name}
	}
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.ns, Name: app.name + "-" + name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}},
	}
	if s.drawLimit(&pdb.Spec, app.replicas); s.setup.stuck {
		pdb.Spec.MinAvailable, pdb.Spec.MaxUnavailable = nil, new(intstr.FromInt32(1))
	}
	if app.guarded {
		pdb.Spec.MinAvailable, pdb.Spec.MaxUnavailable = new(intstr.FromInt32(int32(app.replicas))), nil
	}
	if s.chance(3) {
		pdb.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}
	return pdb
}

func (s *sim) drawLimit(spec *policyv1.PodDisruptionBudgetSpec, replicas int) {
	limits := []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(1), intstr.FromInt32(2),
		intstr.FromString("30%"), intstr.FromInt32(int32(replicas))}
	limit := limits[s.rng.IntN(len(limits))]
	spec.MinAvailable, spec.MaxUnavailable = nil, &limit
	if s.chance(3) {
		least := intstr.FromInt32(int32(s.rng.IntN(replicas + 1)))
		spec.MinAvailable, spec.MaxUnavailable = &least, nil
	}
}

// faultBefore answers in place of the eviction endpoint.
func (s *sim) faultBefore(q *simRequest) (simAnswer, bool) {
	now := time.Now()
	if s.calm {
		return simAnswer{}, false
	}
	switch {
	case now.Before(s.faults.throttled):
		seconds := 1 + s.rng.IntN(5)
		if s.chance(6) {
			seconds = 32
		}
		err := apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "POST", podResource, q.pod.Name,
			"Too many requests, please try again later.", seconds, true)
		return simAnswer{kind: answerGlobal, wait: time.Duration(seconds) * time.Second, err: err, text: true}, true
	case now.Before(s.faults.refused):
		return simAnswer{kind: answerGlobal, wait: 15 * time.Second, err: apierrors.NewUnauthorized("Unauthorized")}, true
	case now.Before(s.faults.missing):
		err := apierrors.NewGenericServerResponse(http.StatusNotFound, "POST", schema.GroupResource{}, "", "404 page not found", 0, true)
		return simAnswer{kind: answerOther, rest: time.Minute, err: err, text: true}, true
	case now.Before(s.faults.access[q.pod.Namespace]):
		return refuse(15*time.Second,
			apierrors.NewForbidden(podResource, q.pod.Name, errors.New(`User "drainer" cannot create resource "pods/eviction"`))), true
	case now.Before(s.faults.webhook[q.pod.Namespace]):
		return refuse(time.Second, apierrors.NewInternalError(errors.New(`failed calling webhook "guard.example.com"`))), true
	case s.trouble.has(troubleContention) && s.chance(8):
		return s.contention(q)
	case s.trouble.has(troubleLost) && s.chance(8):
		return simAnswer{kind: answerUnknown, rest: time.Second, lost: s.chance(3)}, true // never got there
	case s.trouble.has(troubleLost) && s.chance(30):
		err := apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "POST", podResource, q.pod.Name, "no leader", 0, true)
		return simAnswer{kind: answerUnknown, rest: time.Second, err: err, text: true}, true
	default:
		return simAnswer{}, false
	}
}

func (s *sim) contention(q *simRequest) (simAnswer, bool) {
	p := s.pods[q.pod]
	draw := s.rng.IntN(9)
	switch {
	case draw < 3:
		return refuse(time.Second, apierrors.NewConflict(podResource, q.pod.Name, errors.New("the object has been modified"))), p != nil &&
			p.obj.UID == q.uid
	case p == nil || len(s.budgetsOf(p.obj)) != 1 || outside(p.obj):
		return simAnswer{}, false
	case draw < 5:
		err := apierrors.NewForbidden(budgetResource, q.pod.Name,
			errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
		return simAnswer{kind: answerExhausted, rest: runner.ProbeInterval, err: err}, true
	case draw < 7:
		err := apierrors.NewConflict(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}, "b",
			errors.New("the object has been modified"))
		return simAnswer{kind: answerBudget, rest: time.Second, err: err}, true
	default:
		err := apierrors.NewTimeoutError(`couldn't update PodDisruptionBudget "b" due to conflicts`, 10)
		return simAnswer{kind: answerBudget, rest: 10 * time.Second, err: err}, true
	}
}

// faultAfter loses the answer to what was carried out.
func (s *sim) faultAfter(_ *simRequest, a simAnswer) simAnswer {
	if s.calm || !s.trouble.has(troubleLost) || !s.chance(8) {
		return a
	}
	return simAnswer{kind: answerUnknown, rest: time.Second, lost: s.chance(2)}
}

// shrink drops kinds of trouble that are not needed for a failure.
func shrink(trouble simTrouble, fails func(simTrouble) bool) simTrouble {
	for i := range bits.Len32(uint32(allTrouble)) {
		if less := trouble &^ (1 << i); less != trouble && fails(less) {
			trouble = less
		}
	}
	return trouble
}
