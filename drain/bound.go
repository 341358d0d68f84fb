package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Bound is a lower bound of a drain of the Nodes of a plan.
type Bound struct {
	// Waves is how many times evictions have to be sent, with waits for Pods to leave or to be replaced. 0 means that no Pod has to be
	// evicted.
	Waves int
	// Time is the sum of the longest grace periods of each order. Pods that end sooner shorten it. It does not include the time that Pods wait
	// for budgets, which is unknown.
	Time time.Duration
	// By is the budget that causes the number of waves, the first by name if there are several; empty if only orders cause it.
	By types.NamespacedName
	// Never says that some Pods cannot be evicted (see [Plan.Permanent]). Waves and Time do not include them.
	Never bool
}

// LowerBound returns a lower bound for draining all Nodes of the plan at the same time. It is computed from the orders, the Pods that each
// budget covers on these Nodes, and the maximum that the budget can allow at the same time while its number of Pods does not change:
// expectedPods, or currentHealthy if that is more, minus desiredHealthy. A budget whose status is outdated, empty or failed to sync does
// not count. Pods that need no budget do not count either: unready Pods that may be evicted, and pending and finished Pods. A drain of one
// Node after the other takes at least as long.
func (p Plan) LowerBound() Bound {
	b := bounder{plan: &p, total: map[*budget]int32{}}
	for start := 0; start < len(p.Decisions); {
		end := start + 1
		for end < len(p.Decisions) && p.Decisions[end].Node == p.Decisions[start].Node {
			end++
		}
		b.node(p.Decisions[start:end])
		start = end
	}
	for of, pods := range b.total {
		b.bound.raise(rounds(pods, of), of.name)
	}
	return b.bound
}

type bounder struct {
	plan  *Plan
	bound Bound
	total map[*budget]int32
}

// raise increases the number of waves. For equal numbers, no budget is preferred to a budget, and budgets are ordered by name.
func (b *Bound) raise(waves int, by types.NamespacedName) {
	if waves <= 1 {
		by = types.NamespacedName{}
	}
	switch {
	case waves > b.Waves:
		b.Waves, b.By = waves, by
	case waves == b.Waves && compareKeys(by, b.By) < 0: // no name is less than any
		b.By = by
	}
}

// tier is what is known about the Pods of one order on one Node.
type tier struct {
	evicts  bool
	time    time.Duration
	covered map[*budget]int32
}

// bound returns the waves of the tier, and the budget that causes them if there is one.
func (t *tier) bound() Bound {
	b := Bound{Time: t.time}
	if t.evicts {
		b.Waves = 1
	}
	for of, pods := range t.covered {
		b.raise(rounds(pods, of), of.name)
	}
	return b
}

// node adds the tiers of a Node, which are sorted by order. Orders do not apply to finished Pods, which cause a wave only if no other Pod
// does.
func (b *bounder) node(ds []Decision) {
	sum, top, finishedOnly := Bound{}, Bound{Waves: 1}, false
	for start := 0; start < len(ds); {
		end := start + 1
		for end < len(ds) && ds[end].Order == ds[start].Order {
			end++
		}
		t := tier{covered: map[*budget]int32{}}
		for i := start; i < end; i++ {
			finishedOnly = finishedOnly || ds[i].Action == Evict && finished(ds[i].Pod)
			b.count(&t, &ds[i])
		}
		of := t.bound()
		sum.Waves, sum.Time = sum.Waves+of.Waves, sum.Time+of.Time
		if of.Waves > top.Waves {
			top = of
		}
		start = end
	}
	if finishedOnly {
		sum.Waves = max(sum.Waves, 1)
	}
	b.bound.Time = max(b.bound.Time, sum.Time)
	b.bound.raise(sum.Waves, top.By)
}

func (b *bounder) count(t *tier, d *Decision) {
	switch {
	case d.Action == Ignore || finished(d.Pod):
		return
	case d.Pod.DeletionTimestamp != nil:
		t.time = max(t.time, b.left(d.Pod))
		return
	case onItsWay(d):
		return
	case d.Intended == Deny:
		b.bound.Never = true
		return
	case d.Intended == Evict:
		of, never := b.plan.budgets.covering(d.Pod)
		if never {
			b.bound.Never = true
			return
		}
		if of != nil {
			t.covered[of]++
			b.total[of]++
		}
	case d.Intended != Delete:
		return
	}
	t.evicts = true
	t.time = max(t.time, graceFor(d))
}

// left is how long a terminating Pod may still take; its deletionTimestamp is the end of its grace period.
func (b *bounder) left(pod *corev1.Pod) time.Duration {
	if b.plan.now.IsZero() {
		return 0
	}
	return max(0, pod.DeletionTimestamp.Sub(b.plan.now))
}

// graceFor is how long the Pod of a decision may take to end.
func graceFor(d *Decision) time.Duration {
	return seconds(max(0, ptr.Deref(d.GracePeriodSeconds, graceOfPod(d.Pod))))
}

// covering returns the only budget that counts the eviction of the Pod, or nil; never says that budgets refuse it permanently.
func (l ledger) covering(pod *corev1.Pod) (of *budget, never bool) {
	only, refusal := l.judge(pod)
	if refusal == ReasonMultipleBudgets || refusal == ReasonBudgetNeverAllows {
		return nil, true
	}
	if only != nil {
		if _, known := mostAtOnce(only.obj); known {
			return only, false
		}
	}
	return nil, false
}

// mostAtOnce is how many Pods a budget can ever allow to be disrupted at the same time; known is false if its status does not contain it.
func mostAtOnce(pdb *policyv1.PodDisruptionBudget) (most int32, known bool) {
	st := &pdb.Status
	if stale(pdb) || syncFailed(pdb) != "" || st.ExpectedPods == 0 {
		return 0, false
	}
	most = max(st.ExpectedPods-st.DesiredHealthy, st.CurrentHealthy-st.DesiredHealthy, st.DisruptionsAllowed)
	return most, most > 0
}

func rounds(pods int32, of *budget) int {
	most, _ := mostAtOnce(of.obj)
	most = max(1, most) // covering returns no other
	return int((int64(pods) + int64(most) - 1) / int64(most))
}
