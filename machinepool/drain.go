package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// turn is what a process remembers about the drain of one Node.
type turn struct {
	// Began is when its drain began, and Moved when it got its turn or its pods came further. Lost is when it lost its turn; zero while it
	// has one.
	Began, Moved, Lost time.Time
	// Left is how many pods there were, and Blocked says that some of them were refused or are held by a budget.
	Left    int
	Blocked bool
	// Detaching says that no pods were left when its volumes were waited for, and none has been seen since: it needs no turn.
	Detaching bool
}

// stuck reports whether no pod of a Node could be evicted for a while. Pods that terminate, however long that takes, count as progress.
func (t turn) stuck(patience time.Duration, now time.Time) bool {
	return t.Blocked && reached(t.Moved, patience, now)
}

// steps is the turn after a look at the pods.
func (t turn) steps(c drain.Counts, now time.Time) turn {
	left := c.Total - c.Ignored
	if left != t.Left || c.Terminating > 0 {
		t.Moved = now
	}
	t.Left, t.Blocked = left, c.Blocked > 0
	t.Detaching = t.Detaching && left == 0
	return t
}

// rank is when a Node gets a turn, before those of a higher class and, in its class, before those of a later time.
type rank struct {
	class int
	since time.Time
}

// rankOf: first come Nodes whose time is up, which need no turn, then those that have one, as this process knows or the Node says, then
// those that wait for their first one, and at last those that have lost it, or are stuck and lose it now if others wait. So a Node without
// pods is drained however many are stuck behind budgets, and each of those comes again.
func rankOf(node *corev1.Node, t turn, known, expired bool, patience time.Duration, now time.Time) rank {
	_, says := node.Annotations[contract.DrainStartedAnnotation]
	switch {
	case expired:
		return rank{class: 0}
	case !t.Lost.IsZero():
		return rank{3, t.Lost}
	case t.stuck(patience, now):
		return rank{3, now}
	case known || says:
		return rank{class: 1}
	}
	return rank{class: 2}
}

// inTurn sorts Nodes by when they get a turn.
func inTurn(
	nodes []*corev1.Node, turns map[types.UID]turn, expired func(*corev1.Node) bool, patience time.Duration, now time.Time,
) []*corev1.Node {
	ranks := make(map[types.UID]rank, len(nodes))
	for _, node := range nodes {
		t, known := turns[node.UID]
		ranks[node.UID] = rankOf(node, t, known, expired(node), patience, now)
	}
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		x, y := ranks[a.UID], ranks[b.UID]
		return cmp.Or(cmp.Compare(x.class, y.class), x.since.Compare(y.since))
	})
}

// startsOver has the drains of Nodes that were uncordoned since they began start over: pods may be on them again. Their turns come behind
// those of all others, so that a program that uncordons a Node again and again holds up no other one.
func (r *recollection) startsOver(nodes []*corev1.Node, now time.Time) {
	for _, node := range nodes {
		_, known := r.turns[node.UID]
		if !node.Spec.Unschedulable && (known || hasMark(node) || r.drained.Has(node.UID)) {
			r.drained.Delete(node.UID)
			r.turns[node.UID] = turn{Lost: now}
		}
	}
}

// takes gives a Node its turn, and returns when its drain began.
func (r *recollection) takes(node types.UID, now time.Time) time.Time {
	t, known := r.turns[node]
	if t.Began.IsZero() {
		t.Began = now
	}
	if !known || !t.Lost.IsZero() {
		t.Moved, t.Lost, t.Blocked = now, time.Time{}, false
	}
	r.turns[node] = t
	return t.Began
}

// waits records that a Node without pods waits for volumes.
func (r *recollection) waits(node types.UID) {
	t := r.turns[node]
	t.Detaching = true
	r.turns[node] = t
}

// detachingOf returns how many of some Nodes only wait for volumes.
func (r *recollection) detachingOf(nodes []*corev1.Node) (n int) {
	for _, node := range nodes {
		if r.turns[node.UID].Detaching {
			n++
		}
	}
	return n
}

// passOn ends the turns of Nodes that got none now, and forgets Nodes that are not drained any more. It returns when the next Node is stuck
// while another one waits for its turn; zero for never.
func (r *recollection) passOn(nodes []*corev1.Node, keep sets.Set[string], patience time.Duration, now time.Time) (again time.Duration) {
	for _, node := range nodes {
		t, known := r.turns[node.UID]
		kept := keep.Has(node.Name)
		switch {
		case known && !kept && t.Lost.IsZero():
			t.Lost = now
			r.turns[node.UID] = t
		case kept && t.Blocked && len(keep) < len(nodes):
			again = engine.Soonest(again, max(t.Moved.Add(patience).Sub(now), time.Second))
		}
	}
	wanted := uidsOf(nodes)
	maps.DeleteFunc(r.turns, func(uid types.UID, _ turn) bool { return !wanted.Has(uid) })
	return again
}

// drain continues drains. All Nodes are cordoned first, so that no pod moves from one leaving Node to another; then a few are drained at a
// time, and a Node that is stuck gives its turn to another one that waits. Nodes that only wait for volumes need no turn: they are looked
// at beside those that have one. With a zero start each Node has a limit of its own, which counts from its first turn. It calls done for
// Nodes that are drained, or whose limit is reached.
func (p *Scope) drain(ctx context.Context, nodes []*corev1.Node, start time.Time, done func(*corev1.Node) error) error {
	mem, most, patience := p.mem(), p.env.limits.draining, p.env.limits.stuck
	keep, taken := sets.New[string](), 0
	mem.startsOver(nodes, p.Now)
	nodes = inTurn(nodes, mem.turns, p.isExpired(start), patience, p.Now)
	begin := 0
	if start.IsZero() {
		begin = most + mem.detachingOf(nodes)
	}
	err := p.cordon(ctx, nodes, begin)
	for _, node := range nodes {
		if taken >= most && !mem.turns[node.UID].Detaching {
			continue
		}
		over, stepErr := p.advance(ctx, node, start, done)
		err = errors.Join(err, stepErr)
		if over {
			mem.drained.Insert(node.UID)
			continue
		}
		keep.Insert(node.Name)
		if !mem.turns[node.UID].Detaching {
			taken++
		}
	}
	mem.release(keep)
	p.Requeue(mem.passOn(nodes, keep, patience, p.Now))
	return err
}

// advance continues the drain of one Node, and reports whether it is over and done accepted that. Otherwise it is done again.
func (p *Scope) advance(ctx context.Context, node *corev1.Node, start time.Time, done func(*corev1.Node) error) (bool, error) {
	if !node.Spec.Unschedulable || p.env.frame.Writer.Behind(node) {
		return false, nil // its event is on the way, and may show that its marks were removed
	}
	over, err := p.step(ctx, node, start)
	if err == nil && over {
		err = done(node)
	}
	if errors.Is(err, errAgain) || cluster.IsUnread(err) {
		p.Requeue(engine.ConflictRetry)
		return false, nil
	}
	return over && err == nil, err
}

// isExpired returns a function that reports whether the limit of a Node's drain is reached, whether or not it has a turn now.
func (p *Scope) isExpired(start time.Time) func(*corev1.Node) bool {
	limit := p.drainLimit()
	return func(node *corev1.Node) bool {
		began := start
		if began.IsZero() {
			began = cmp.Or(timeIn(node.Annotations, contract.DrainStartedAnnotation), p.mem().turns[node.UID].Began)
		}
		return reached(began, limit, p.Now)
	}
}

// drainLimit returns how long the drain of a Node may take, zero for no limit.
func (p *Scope) drainLimit() time.Duration {
	return max(0, p.State.Template.NodeDrainTimeout.Or(0))
}

// step continues the drain of one Node, and reports whether it is over.
func (p *Scope) step(ctx context.Context, node *corev1.Node, start time.Time) (bool, error) {
	drainer, policy := p.workload.Drainer, p.env.options.Policy
	since := p.mem().takes(node.UID, p.Now)
	p.mem().drains(drainer, node.Name)
	limit := p.drainLimit()
	if start.IsZero() {
		var err error
		if start, err = p.begun(ctx, node, since, limit); err != nil {
			return false, err
		}
	}
	if reached(start, limit, p.Now) {
		p.warn(EventDrainFailed, "Node %s was not drained within %s: going on without", node.Name, limit)
		return true, nil
	}
	result, err := drainer.Step(ctx, runner.Request{
		Node: node, Owner: p.State.Key, Rules: policy.DrainRules, Policy: policy.DrainPolicy, StartedAt: start,
	})
	if err != nil {
		return false, fmt.Errorf("drain Node %s: %w", node.Name, err)
	}
	p.mem().turns[node.UID] = p.mem().turns[node.UID].steps(result.Counts, p.Now)
	if result.Done {
		gone, err := p.volumesGone(ctx, node)
		if gone {
			p.tell(EventNodeDrained, "success draining Node %s", node.Name)
		}
		if gone || err != nil {
			return gone, err
		}
	}
	p.Requeue(result.RequeueAfter)
	p.requeueAt(start, limit)
	return false, nil
}

// volumesGone reports whether a Node without pods has no volume to wait for: when an instance is deleted with a volume attached, the pods'
// replacements wait for that volume for minutes. Rule: Cluster API's Machine controller.
func (p *Scope) volumesGone(ctx context.Context, node *corev1.Node) (bool, error) {
	_, excluded := p.State.Annotations[contract.ExcludeVolumeDetach]
	if excluded || p.workload.Volumes == nil {
		return true, nil
	}
	limit := p.State.Template.NodeVolumeDetachTimeout.Or(0)
	began := p.mem().detaches(p.workload.Volumes, node.Name, p.Now)
	if reached(began, limit, p.Now) { // whether volumes can be read or not
		p.warn(EventVolumesLeft, "Volumes of Node %s were not detached within %s: going on without", node.Name, limit)
		return true, nil
	}
	result, err := p.workload.Volumes.StepVolumes(ctx, runner.VolumeRequest{
		Node: node, Owner: p.State.Key, Rules: p.env.options.Policy.DrainRules, StartedAt: began, Timeout: limit,
	})
	p.requeueAt(began, limit)
	if err == nil && result.Done {
		return true, nil
	}
	message := result.Message
	if err != nil {
		message = engine.Bounded("* "+err.Error(), engine.MaxNoteLength)
		err = fmt.Errorf("wait for the volumes of Node %s: %w", node.Name, err)
	}
	if p.attached == nil {
		p.attached = map[string]string{}
	}
	p.attached[node.Name] = message
	p.mem().waits(node.UID)
	p.Requeue(result.RequeueAfter)
	return false, err
}
