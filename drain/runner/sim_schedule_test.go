package runner_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endsWithin is how long a drain may take when trouble is over: five minutes are the longest rest after a refusal.
const endsWithin = 25 * time.Minute

// planTrouble lets each kind of trouble come up at random times.
func (s *sim) planTrouble() {
	for i, do := range []func(){
		s.crash, s.jump, s.loseTouch, s.stallBudgets, nil, s.meddle, s.hurtPods, s.uncordon, s.cancelDrain, s.replaceNode, s.closeSpace,
		nil,
		func() { s.faults.throttled = time.Now().Add(s.upTo(8 * time.Second)) },
		func() { s.faults.refused = time.Now().Add(s.upTo(40 * time.Second)) },
		func() { s.faults.webhook[s.anySpace()] = time.Now().Add(s.upTo(time.Minute)) },
		func() { s.faults.access[s.anySpace()] = time.Now().Add(s.upTo(time.Minute)) },
		nil, nil,
		func() { s.faults.missing = time.Now().Add(s.upTo(time.Minute)) },
	} {
		kind := simTrouble(1) << i
		if do == nil || !s.trouble.has(kind) {
			continue
		}
		every := 10*time.Second + s.upTo(80*time.Second)
		if kind == troublePods {
			every /= 8
		}
		s.recur(every, func() {
			s.note("trouble: %s", kind)
			do()
		})
	}
}

func (s *sim) recur(every time.Duration, do func()) {
	s.after(s.upTo(2*every), func() {
		if s.calm {
			return
		}
		do()
		s.recur(every, do)
	})
}

func (s *sim) crash() {
	if s.proc == nil || s.calm {
		return
	}
	s.count["crashes"]++
	s.note("crash")
	s.proc.stop()
	s.after(s.upTo(20*time.Second), func() {
		if s.proc == nil {
			s.start()
		}
	})
}

func (s *sim) jump() {
	d := s.upTo(2 * time.Hour)
	if s.chance(2) {
		d = -s.upTo(time.Minute)
	}
	s.facts.jumped = time.Now()
	if s.proc != nil {
		s.note("clock jumps by %s", d)
		s.proc.clock.jump(d)
		s.proc.book.jumped()
	}
}

func (s *sim) loseTouch() {
	if s.proc == nil {
		return
	}
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		if s.chance(2) {
			s.note("lost touch with pods of %s", node)
			s.proc.pods.lose(node, s.chance(2), s.upTo(30*time.Second))
		}
	}
}

func (s *sim) stallBudgets() {
	if s.proc != nil && s.proc.budgets != nil {
		s.proc.budgets.stalled = time.Now().Add(s.upTo(50 * time.Second))
	}
}

// meddle is what people do to budgets.
func (s *sim) meddle() {
	keys := inOrder(s.budgets)
	if len(keys) == 0 {
		return
	}
	b := s.budgets[keys[s.rng.IntN(len(keys))]]
	app := s.apps[s.rng.IntN(len(s.apps))]
	second := types.NamespacedName{Namespace: app.ns, Name: app.name + "-second"}
	switch s.rng.IntN(5) {
	case 0:
		s.note("budget %s deleted", keys)
		s.deleteBudget(b)
	case 1:
		if s.budgets[second] == nil {
			s.note("budget %s added", second)
			s.createBudget(s.newBudget(app, "second"))
		}
	default:
		s.note("budget %s edited", nameOf(b.obj))
		s.writeBudget(b, true, func(obj *policyv1.PodDisruptionBudget) { s.drawLimit(&obj.Spec, 4) })
	}
}

// hurtPods is what happens to pods without us.
func (s *sim) hurtPods() {
	keys := inOrder(s.pods)
	if len(keys) == 0 {
		return
	}
	p := s.pods[keys[s.rng.IntN(len(keys))]]
	if p.obj.DeletionTimestamp != nil {
		return
	}
	s.blame(p)
	if s.setup.rules && s.chance(3) {
		s.note("%s is to be skipped", p.key())
		s.writePod(p, func(obj *corev1.Pod) { obj.Labels[skipLabel] = "yes" })
		return
	}
	switch s.rng.IntN(6) {
	case 0:
		s.note("%s deleted", p.key())
		s.deletePod(p, false)
	case 1:
		s.writePod(p, func(obj *corev1.Pod) { obj.Status = corev1.PodStatus{Phase: corev1.PodFailed} })
		s.restore(p.app, p.obj.Name+"x")
	case 2:
		p.app.sick = !p.app.sick
		fallthrough
	default:
		s.note("%s becomes ready or not", p.key())
		s.writePod(p, func(obj *corev1.Pod) {
			obj.Status.Phase, obj.Status.Conditions = corev1.PodRunning, readiness(!readyPod(obj))
		})
		s.after(s.upTo(30*time.Second), func() { s.becomeReady(p) })
	}
}

func (s *sim) uncordon() {
	for _, d := range s.drains {
		if node := s.nodes[d.node]; node != nil && node.Spec.Unschedulable && s.chance(2) {
			s.schedulable(d.node, true)
		}
	}
}

// cancelDrain gives up a drain in the middle; half of them are taken up again.
func (s *sim) cancelDrain() {
	if s.proc == nil {
		return
	}
	for _, d := range s.drains {
		node := s.proc.nodes[d.node]
		if d.over || node == nil || node.UID != d.uid || !s.chance(3) {
			continue
		}
		back := s.chance(2)
		s.note("cancel %s, uncordon=%t", d.node, back)
		_ = s.proc.runner.Cancel(context.Background(), node, back) //nolint:forbidigo // may fail like every write
		s.proc.book.released(d.node)
		d.over = true
		if s.chance(2) {
			s.after(s.upTo(20*time.Second), func() { s.drainAgain(d.node, d.uid) })
		}
		return
	}
}

func (s *sim) drainAgain(name string, uid types.UID) {
	if node := s.nodes[name]; node == nil || node.UID != uid {
		return
	}
	for _, d := range s.drains {
		if d.node == name && !d.over {
			return
		}
	}
	d := &simDrain{node: name, uid: uid}
	s.drains = append(s.drains, d)
	if s.proc != nil {
		s.proc.stepAt(d, time.Now())
	}
}

// replaceNode deletes a Node with its pods, and lets most come back as another Node of the same name.
func (s *sim) replaceNode() {
	d := s.drains[s.rng.IntN(len(s.drains))]
	old := s.nodes[d.node]
	if old == nil {
		return
	}
	s.writeNode(d.node, nil)
	s.note("node %s deleted", d.node)
	for _, key := range inOrder(s.pods) {
		if p := s.pods[key]; p.nodeUID == old.UID {
			s.blame(p)
			s.after(s.upTo(10*time.Second), func() { s.removePod(p) }) // by the pod collector
		}
	}
	if s.chance(4) {
		return
	}
	s.after(s.upTo(5*time.Second), func() {
		if s.nodes[d.node] != nil {
			return
		}
		s.addNode(d.node)
		uid := s.nodes[d.node].UID
		s.note("node %s replaced by %s", d.node, uid)
		if s.chance(2) {
			s.after(s.upTo(20*time.Second), func() { s.drainAgain(d.node, uid) })
		}
	})
}

func (s *sim) anySpace() string {
	names := slices.Sorted(maps.Keys(s.spaces))
	return names[s.rng.IntN(len(names))]
}

func (s *sim) closeSpace() {
	name := s.anySpace()
	if s.spaces[name] != spaceActive || !s.chance(3) {
		return
	}
	s.note("namespace %s terminates", name)
	s.spaces[name] = spaceTerminating
	s.after(s.upTo(time.Minute), func() { s.emptySpace(name) })
}

func (s *sim) emptySpace(name string) {
	left := false
	for _, key := range inOrder(s.pods) {
		if p := s.pods[key]; key.Namespace == name && p.app.kind != appStatic {
			left = true
			s.deletePod(p, false)
		}
	}
	if left {
		s.after(s.upTo(20*time.Second), func() { s.emptySpace(name) })
		return
	}
	s.spaces[name] = spaceGone
}

// endTrouble makes everything possible again: from here on every drain has to end.
func (s *sim) endTrouble() {
	s.note("trouble ends")
	s.calm = true
	s.faults.throttled, s.faults.refused, s.faults.missing = time.Time{}, time.Time{}, time.Time{}
	for _, app := range s.apps {
		app.sick, app.tolerates = false, false
	}
	for _, key := range inOrder(s.pods) {
		if p := s.pods[key]; p.obj.Status.Phase == corev1.PodRunning {
			s.becomeReady(p)
		}
	}
	for _, key := range inOrder(s.budgets) {
		b := s.budgets[key]
		if s.guards(b.obj) {
			continue // for good: the webhook has to be asked
		}
		if !s.canOpen(b.obj) {
			s.deleteBudget(b)
			continue
		}
		one := intstr.FromInt32(1)
		s.writeBudget(b, true, func(obj *policyv1.PodDisruptionBudget) { obj.Spec.MinAvailable, obj.Spec.MaxUnavailable = nil, &one })
	}
	s.after(time.Second, s.lookForEnd)
}

// canOpen says whether a budget that allows one disruption lets every pod go in turn: it has to cover one app whose pods come
// back.
func (s *sim) canOpen(pdb *policyv1.PodDisruptionBudget) bool {
	app := strings.TrimSuffix(pdb.Name, "-main")
	return slices.ContainsFunc(s.apps, func(a *simApp) bool {
		return a.ns == pdb.Namespace && a.name == app && a.kind != appBare && pdb.Spec.Selector.MatchLabels["app"] == app
	})
}

// guards says whether a budget covers nothing but an app whose pods a webhook makes go.
func (s *sim) guards(pdb *policyv1.PodDisruptionBudget) bool {
	return slices.ContainsFunc(s.apps, func(a *simApp) bool {
		return a.guarded && a.ns == pdb.Namespace && pdb.Spec.Selector.MatchLabels["app"] == a.name
	})
}

func (s *sim) lookForEnd() {
	waiting := slices.ContainsFunc(s.drains, func(d *simDrain) bool { return !d.over })
	ended := time.Since(s.began) - s.setup.trouble
	switch {
	case !waiting:
		s.over = true
	case ended > endsWithin:
		s.fail("a drain has not ended %s after the trouble has", ended)
		s.explainPods()
	default:
		s.after(5*time.Second, s.lookForEnd)
	}
}

func (s *sim) explainPods() {
	for _, key := range inOrder(s.pods) {
		p := s.pods[key]
		s.note("pod %s %s on %s: %s ready=%t deleted=%v", key, p.obj.UID, p.obj.Spec.NodeName, p.obj.Status.Phase, readyPod(p.obj),
			p.obj.DeletionTimestamp)
	}
}

// end stops what still runs, so that nothing is left in the bubble.
func (s *sim) end() {
	if s.proc != nil {
		s.proc.stop()
	}
	close(s.quit)
}
