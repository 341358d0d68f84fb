package runner_test

import (
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain/runner"
)

// acceptedFor is how long an accepted eviction is trusted while neither the pod nor the budget shows it.
const acceptedFor = 30 * time.Second

// simFacts are what the checks know about the world beyond what it stores.
type simFacts struct {
	uncordoned map[string]time.Time // by Node: the latest time
	undone     map[string]int       // by Node: how often
	jumped     time.Time            // the clock
}

// checkRequest looks at a request that has just been sent.
func (s *sim) checkRequest(q *simRequest) {
	p := q.proc
	b := &p.book
	s.note("request %s %s", q.pod, q.uid)
	q.asked = &simAsked{q: q, flying: true}
	if p.ended {
		s.fail("a request for %s was sent after the context had ended", q.pod)
		return
	}
	if q.uid == "" {
		s.fail("the request for %s has no UID precondition", q.pod)
	}
	now := time.Now()
	if now.Before(b.pause) {
		s.fail("a request for %s was sent %s before the server wanted any", q.pod, b.pause.Sub(now))
	}
	seen, pod := b.find(q)
	if pod == nil {
		s.fail("%s %s was asked to go, and the latest look at a Node that is being drained did not show it", q.pod, q.uid)
		return
	}
	if pod.DeletionTimestamp != nil || ignoredPod(pod) {
		s.fail("%s was asked to go although it is terminating or the rules ignore it", q.pod)
	}
	if s.setup.rules && !finishedPod(pod) && seen.before(pod) {
		s.fail("%s was asked to go before others with a lower order", q.pod)
	}
	q.asked.node = seen.node
	s.checkAgain(q, b.pods[q.uid])
	s.checkPurse(q, seen, pod, b.pods[q.uid])
	b.pods[q.uid] = q.asked
	delete(seen.against, q.uid)
	delete(seen.free, q.uid)
	b.flying = append(b.flying, q.asked)
	if len(b.flying) > s.setup.workers {
		s.fail("%d requests are under way with %d workers", len(b.flying), s.setup.workers)
	}
	delete(seen.waiting, q.uid)
}

func (b *simBook) find(q *simRequest) (*simSeen, *corev1.Pod) {
	for _, seen := range b.seen {
		for _, pod := range seen.pods {
			if pod.UID == q.uid && nameOf(pod) == q.pod {
				return seen, pod
			}
		}
	}
	return nil, nil
}

// before says whether the look showed pods that have to go before this one.
func (v *simView) before(pod *corev1.Pod) bool {
	return slices.ContainsFunc(v.pods, func(other *corev1.Pod) bool {
		return orderOf(other) < orderOf(pod) && !ignoredPod(other) && !finishedPod(other)
	})
}

func ignoredPod(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOf(pod)
	return pod.Labels[skipLabel] != "" || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" || ref != nil && ref.Kind == "DaemonSet"
}

// checkAgain compares a request with the one before for the same pod.
func (s *sim) checkAgain(q *simRequest, last *simAsked) {
	now := time.Now()
	switch {
	case last == nil || last.released:
	case last.flying:
		s.fail("two requests for %s are under way", q.pod)
	case now.Before(last.trusted):
		s.fail("%s was asked for again %s after it had been accepted", q.pod, acceptedFor-last.trusted.Sub(now))
	case now.Before(last.rest) && last.budget == (types.NamespacedName{}) && !last.refused():
		s.fail("%s was asked for again %s too early after %q", q.pod, last.rest.Sub(now), last.answer)
	}
}

// answered books an answer, or that the Runner gave the request up.
func (s *sim) answered(q *simRequest, a simAnswer) {
	q.ended = true
	b, now := &q.proc.book, time.Now()
	s.note("answer %s %s: %s %v", q.pod, q.uid, a.kind, a.err)
	asked := q.asked
	asked.flying, asked.answer = false, a.kind
	b.flying = slices.DeleteFunc(b.flying, func(f *simAsked) bool { return f == asked })
	if purse := b.budgets[asked.budget]; purse != nil {
		asked.version = purse.obj.ResourceVersion
	}
	switch a.kind {
	case answerAccepted:
		s.count["accepted"]++
		asked.trusted = now.Add(acceptedFor)
		if purse := b.budgets[asked.budget]; purse != nil && (asked.probe || asked.hopeless()) {
			purse.forgive()
		}
	case answerGone:
		asked.trusted = now.Add(runner.ProbeInterval)
	case answerGlobal:
		b.toldOff(q, now.Add(a.wait))
	case answerExhausted, answerStale:
		s.count["refused"]++
		asked.rest = now.Add(a.rest)
		if asked.sure {
			asked.rest = now.Add(time.Minute)
		}
		if purse := b.budgets[asked.budget]; purse != nil {
			purse.close(runner.ProbeInterval)
		}
	case answerBudget, answerUnknown, answerDouble, answerOther:
		s.count["otherwise"]++
		asked.rest = now.Add(a.rest)
	}
	if asked.released {
		asked.rest, asked.trusted = time.Time{}, time.Time{}
	}
}

// toldOff books that the server told the whole process off: all of it pauses, and the request is repeated.
func (b *simBook) toldOff(q *simRequest, pause time.Time) {
	if pause.After(b.pause) {
		b.pause = pause
	}
	if q.asked.probe {
		b.budgets[q.asked.budget].probes++
	}
	if seen := b.seen[q.asked.node]; seen != nil { // it is still queued as it was
		seen.against[q.uid], seen.free[q.uid] = q.asked.against, !q.asked.sure
	}
}

// checkEviction looks at an eviction that the server is about to carry out.
func (s *sim) checkEviction(q *simRequest, p *simPod) {
	if p.app.kind == appDaemonSet || p.app.kind == appStatic {
		s.fail("%s belongs to its Node and was evicted", q.pod)
	}
	mine := slices.ContainsFunc(s.drains, func(d *simDrain) bool { return d.uid == p.nodeUID })
	if now := s.nodes[p.obj.Spec.NodeName]; now == nil || now.UID != p.nodeUID {
		mine = true // a leftover of a Node that is gone
	}
	if !mine && time.Since(p.bound) > nodeLag+podLag+3*s.setup.latency {
		s.fail("%s of Node %s %s was evicted, which is not drained", q.pod, p.obj.Spec.NodeName, p.nodeUID)
	}
	budgets := s.budgetsOf(p.obj)
	if len(budgets) != 1 || budgets[0].dirty || outside(p.obj) || !readyPod(p.obj) {
		return
	}
	left := s.healthy(budgets[0], map[string]metav1.Time{q.pod.Name: {}})
	if want := budgets[0].obj.Status.DesiredHealthy; left < want {
		s.fail("the eviction of %s leaves %d healthy pods where %s wants %d", q.pod, left, nameOf(budgets[0].obj), want)
	}
}

// checkStep looks at what a Step said, and books what it was shown.
func (s *sim) checkStep(d *simDrain, before, node *corev1.Node, view simView, result runner.Result, err error) {
	if !reflect.DeepEqual(before, node) {
		s.fail("Step changed the Node %s", node.Name)
	}
	if err != nil {
		if result.Done {
			s.fail("Step of %s said Done beside %v", d.node, err)
		}
		return
	}
	c := result.Counts
	switch {
	case c.Evictable+c.Terminating+c.Waiting+c.Blocked+c.Ignored != c.Total:
		s.fail("the counts of %s do not add up: %+v", d.node, c)
	case result.Done != (result.RequeueAfter == 0), result.Done != (result.Message == ""):
		s.fail("Step of %s said done=%t with %q and another look after %s", d.node, result.Done, result.Message, result.RequeueAfter)
	case result.RequeueAfter > runner.ProbeInterval:
		s.fail("Step of %s wants to look again only after %s", d.node, result.RequeueAfter)
	}
	d.doneAt = time.Time{}
	if result.Done {
		d.doneAt = time.Now()
		s.checkDone(d, node, view)
	}
	if view.read {
		s.proc.book.show(node, view, result)
	}
}

// checkDone compares Done with the truth. What no cache can have seen yet is forgiven: a pod that was bound within the
// caches' lag, unless it came by a scheduler that was late, which the settle time is there for.
func (s *sim) checkDone(d *simDrain, node *corev1.Node, view simView) {
	if !view.read {
		s.fail("%s was said to be done with an unsynced cache", d.node)
	}
	if !node.Spec.Unschedulable && s.facts.undone[d.node] < 5 { // somebody insists
		s.fail("%s was said to be done before it was seen cordoned", d.node)
	}
	for _, key := range inOrder(s.pods) {
		p := s.pods[key]
		if p.obj.Spec.NodeName != d.node || p.nodeUID != d.uid || !p.blocks() {
			continue
		}
		if time.Since(p.bound) <= s.setup.podLag && (!p.raced || s.recently(d.node)) {
			continue
		}
		s.fail("%s was said to be done with %s alive, bound %s ago", d.node, key, time.Since(p.bound))
	}
}

// recently says that the cordon was undone or the clock moved so lately that the settle time may have been for nothing.
func (s *sim) recently(node string) bool {
	return time.Since(s.facts.uncordoned[node]) < 10*time.Second || time.Since(s.facts.jumped) < 10*time.Second
}

// checkBinding finds the pod that comes after Done.
func (s *sim) checkBinding(p *simPod) {
	for _, d := range s.drains {
		if d.uid == p.nodeUID && p.raced && !d.doneAt.IsZero() && s.facts.uncordoned[d.node].Before(d.doneAt.Add(-10*time.Second)) &&
			!s.recently(d.node) && s.facts.undone[d.node] < 5 { // somebody insists: the drain ends without the cordon
			s.fail("%s came to %s after that was said to be done", p.key(), d.node)
		}
	}
}
