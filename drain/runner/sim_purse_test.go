package runner_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain/runner"
)

func laterThan(a, b string) bool {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return x > y
}

// allows is what a budget's status allows when it can be trusted.
func allows(pdb *policyv1.PodDisruptionBudget) int32 {
	if pdb.Status.ObservedGeneration < pdb.Generation {
		return 0
	}
	return pdb.Status.DisruptionsAllowed
}

// selecting returns the first of the budgets that select a pod, and how many do.
func selecting(budgets map[types.NamespacedName]*policyv1.PodDisruptionBudget, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, int) {
	var first *policyv1.PodDisruptionBudget
	count := 0
	for _, name := range inOrder(budgets) {
		if pdb := budgets[name]; selects(pdb, pod) {
			first = cmp.Or(first, pdb)
			count++
		}
	}
	return first, count
}

// payer returns the budget that an eviction of the pod would count against, empty for none. may is false when two budgets
// let nothing go.
func payer(budgets map[types.NamespacedName]*policyv1.PodDisruptionBudget, pod *corev1.Pod) (name types.NamespacedName, may bool) {
	pdb, count := selecting(budgets, pod)
	switch {
	case count == 0 || outside(pod):
		return name, true
	case count > 1:
		return name, false
	case !readyPod(pod) && unreadyAllowed(pdb):
		return name, true
	default:
		return nameOf(pdb), true
	}
}

// shut says that no state of a budget's pods can open it.
func shut(pdb *policyv1.PodDisruptionBudget) bool {
	st := &pdb.Status
	switch failed := meta.FindStatusCondition(st.Conditions, policyv1.DisruptionAllowedCondition); {
	case failed != nil, st.ObservedGeneration < pdb.Generation, st.DisruptionsAllowed > 0, st.ExpectedPods == 0:
		return false
	case pdb.Spec.MaxUnavailable != nil:
		return pdb.Spec.MaxUnavailable.String() == "0"
	default:
		return st.DesiredHealthy >= st.ExpectedPods
	}
}

// hopeless says that budgets can never let a pod go, and names the first. It is asked for all the same, and not too often.
func hopeless(budgets map[types.NamespacedName]*policyv1.PodDisruptionBudget, pod *corev1.Pod) (types.NamespacedName, bool) {
	pdb, count := selecting(budgets, pod)
	if count == 0 || outside(pod) || count == 1 && (!shut(pdb) || !readyPod(pod) && unreadyAllowed(pdb)) {
		return types.NamespacedName{}, false
	}
	return nameOf(pdb), true
}

// checkPurse holds a request against what its budget allowed: no more may be asked for than a Step has seen allowed, less
// what was asked for since and does not show in the budget's status. What goes beyond are probes, one per ProbeInterval,
// however many Nodes, pods, answers and events there are.
func (s *sim) checkPurse(q *simRequest, seen *simSeen, pod *corev1.Pod, last *simAsked) {
	resting := last.resting()
	if !s.setup.budgets {
		if resting {
			s.fail("%s was asked for again %s too early after %q", q.pod, time.Until(last.rest), last.answer)
		}
		return
	}
	pdb, count := selecting(seen.budgets, pod)
	a := q.asked
	a.against = seen.against[q.uid]
	a.sure = a.hopeless() && !seen.free[q.uid]
	s.checkHopeless(q, seen, pod, last)
	if count != 1 {
		return
	}
	under, before := seen.under[q.uid]
	a.budget = nameOf(pdb)
	if before && under != a.budget || a.hopeless() && a.against != a.budget { // queued before it came under this budget
		return
	}
	a.token = !outside(pod) && (readyPod(pod) || !unreadyAllowed(pdb))
	purse := q.proc.book.budgets[a.budget]
	early := resting && (!last.refused() || !last.hopeless() && last.version == purse.obj.ResourceVersion)
	s.checkSpending(q, purse, max(allows(pdb), seen.most[a.budget]), early)
}

// checkHopeless holds a request against what budgets can never let go: it is asked for as the plan says, and not too often.
func (s *sim) checkHopeless(q *simRequest, seen *simSeen, pod *corev1.Pod, last *simAsked) {
	_, count := selecting(seen.budgets, pod)
	_, before := seen.under[q.uid]
	_, still := hopeless(seen.budgets, pod)
	switch {
	case count > 1 && !outside(pod) && !before && !q.asked.hopeless():
		s.fail("%s was asked to go again although the cache shows two budgets over it", q.pod)
	case last.resting() && still && !seen.free[q.uid] && (last.sure || !last.refused()): // otherwise it was queued while it could go
		s.fail("%s, which can never go, was asked for again %s too early after %q", q.pod, time.Until(last.rest), last.answer)
	}
}

// resting says that a pod was asked for, and may not be asked for again yet.
func (a *simAsked) resting() bool { return a != nil && !a.released && time.Now().Before(a.rest) }

// checkSpending takes a request from what the budget allows, or from its probes.
func (s *sim) checkSpending(q *simRequest, purse *simPurse, allowed int32, early bool) {
	closed, spent := purse.spent()
	over := early || q.asked.token && (closed || spent >= allowed)
	if q.asked.token {
		purse.tokens = append(purse.tokens, q.asked)
	}
	if over && !q.asked.hopeless() {
		s.checkProbe(q, purse, early)
	}
}

// refused says that the last answer was the budget's, or that of two budgets that were known to be in the way.
func (a *simAsked) refused() bool {
	return a.answer == answerExhausted || a.answer == answerStale || a.answer == answerDouble && a.hopeless()
}

func (a *simAsked) hopeless() bool { return a.against != types.NamespacedName{} }

// spent counts what a budget's status does not show yet. closed says that the server has refused the version that is known.
func (p *simPurse) spent() (closed bool, spent int32) {
	p.tokens = slices.DeleteFunc(p.tokens, func(a *simAsked) bool {
		if a.flying {
			return false
		}
		_, recorded := p.obj.Status.DisruptedPods[a.q.pod.Name]
		newer := a.version != p.obj.ResourceVersion
		switch a.answer {
		case answerAccepted:
			return newer || recorded || !time.Now().Before(a.trusted)
		case answerExhausted, answerStale:
			return newer
		case answerGone, answerBudget, answerGlobal, answerUnknown, answerDouble, answerOther:
			return true
		default:
			return true
		}
	})
	for _, a := range p.tokens {
		closed = closed || !a.flying && a.answer != answerAccepted
		spent++
	}
	return closed, spent
}

// see takes in what a Step was shown of the budget, and whether it said that the budget holds pods. That starts anew when
// nothing was held for some time.
func (p *simPurse) see(pdb *policyv1.PodDisruptionBudget, holds bool, probe time.Duration) {
	if p.obj == nil || laterThan(pdb.ResourceVersion, p.obj.ResourceVersion) {
		p.obj = pdb
	}
	if allows(p.obj) == 0 || holds {
		p.close(probe)
	}
}

// close says that the budget is known to be closed at this moment.
func (p *simPurse) close(probe time.Duration) {
	if time.Since(p.closedLast) > 6*probe {
		p.closedSince = time.Now()
	}
	p.closedLast = time.Now()
}

// forgive forgets that the server refused the known version: a probe went through, so the status may be trusted again.
func (p *simPurse) forgive() {
	p.tokens = slices.DeleteFunc(p.tokens, func(a *simAsked) bool { return !a.flying && a.answer != answerAccepted })
}

// checkProbe takes a probe from a bucket that holds two and gets one per ProbeInterval.
func (s *sim) checkProbe(q *simRequest, purse *simPurse, early bool) {
	now := time.Now()
	s.count["over"]++
	q.asked.probe = true
	if moved := q.proc.clock.offset.Load() != 0; !moved && runner.ProbeInterval > now.Sub(purse.closedSince) && allows(purse.obj) == 0 {
		s.fail("%s was asked for although %s is closed, and that for %s only", q.pod, q.asked.budget, now.Sub(purse.closedSince))
	}
	purse.probes = min(2, purse.probes+now.Sub(purse.filled).Seconds()/runner.ProbeInterval.Seconds()) - 1
	purse.filled = now
	s.note("probe of %s, %.2f left", q.asked.budget, purse.probes)
	if purse.probes < 0 {
		s.fail("%s was asked for beyond what %s allows (version %s, early %t, %d of %d), and a probe was not due", q.pod, q.asked.budget,
			purse.obj.ResourceVersion, early, len(purse.tokens), allows(purse.obj))
	}
}

// checkFairness looks at what was sent in one moment: while a Node waits with a pod that nothing holds back, no other Node
// gets its turn again and again.
func (s *sim) checkFairness(sent []*simRequest) {
	if s.proc == nil {
		return
	}
	b := &s.proc.book
	turns := map[string]int{}
	for _, q := range sent {
		turns[q.asked.node]++
	}
	for _, node := range slices.Sorted(maps.Keys(b.seen)) {
		if turns[node] > 0 || len(b.seen[node].waiting) == 0 {
			delete(b.unfair, node)
			continue
		}
		if b.unfair[node] == nil {
			b.unfair[node] = map[string]int{}
		}
		for other, n := range turns {
			b.unfair[node][other] += n
			if b.unfair[node][other] > 3 {
				s.fail("%s waits with %d pods while %s got %d turns", node, len(b.seen[node].waiting), other, b.unfair[node][other])
			}
		}
	}
}
