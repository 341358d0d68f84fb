package runner

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// Request selects the Node to drain, and configures the drain. Only Node is required.
type Request struct {
	// Node is the Node as last observed by the caller. It is shared and not changed.
	Node *corev1.Node
	// Owner is enqueued through [Runner.Source] when the state of the drain changes. If empty, the name of the Node is enqueued, for a
	// reconciler of Nodes.
	Owner types.NamespacedName
	// Rules decide about the Pods of the Node; nil means [drain.DefaultRules].
	Rules []drain.Rule
	// Policy decides how the drain escalates; nil is the zero policy, which evicts without a limit.
	Policy *drain.Policy
	// StartedAt is when the drain started. The times of the policy count from it, so the owner must persist it. Zero means the first Step of
	// this process.
	StartedAt time.Time
	// PoweredOff: the provider confirms that the instance is off. It counts only if the policy has SkipUnreachableAfter.
	PoweredOff bool
}

// policy returns the policy of the request; the default evicts without a limit.
func (req *Request) policy() drain.Policy { return *cmp.Or(req.Policy, &drain.Policy{}) }

// rules returns the rules of the request, with the policy as the last rule.
func (req *Request) rules(now time.Time) []drain.Rule {
	rules := req.Rules
	if rules == nil {
		rules = drain.DefaultRules()
	}
	return append(slices.Clip(rules), req.policy().Rule(drain.Situation{
		Now: now, StartedAt: req.StartedAt, Node: req.Node, PoweredOff: req.PoweredOff,
	}))
}

// Result is the state of the drain of a Node.
type Result struct {
	// Done: all Pods of the Node are known, none of them blocks, and the Node is cordoned, unless others uncordon it repeatedly.
	Done   bool
	Counts drain.Counts
	// Blockers are sorted; one with [drain.ReasonUncordoned], which has no Pods, is the last. Their Since goes back at most to the start of
	// this process.
	Blockers []drain.Blocker
	// Event is the content of an event, once for each drain in a process: others make the Node schedulable again. Nil otherwise.
	Event *drain.Blocker
	// Message is the remaining work, in the lines of Cluster API without the first one; empty when Done. Equal states have equal messages.
	Message string
	// RequeueAfter is when to call Step again even if the owner is not enqueued; 0 when Done.
	RequeueAfter time.Duration
}

// againAt requests the next Step at the given time.
func (r *Result) againAt(at, now time.Time) {
	r.RequeueAfter = min(r.RequeueAfter, max(at.Sub(now), time.Millisecond))
}

// settle decides whether a Node without blocking Pods is drained, or its Pods must be listed again to confirm that. The settle time counts
// from the cordon, and from the last Pod that was bound after it.
func (r *Result) settle(ns *nodeState, settle time.Duration, now time.Time) (confirm bool) {
	since := ns.cordon.since
	if ns.boundAt.After(since) && !ns.boundAt.After(now) {
		since = ns.boundAt
	}
	switch left := settle - now.Sub(since); {
	case ns.cordon.since.IsZero():
		r.Message = "* waiting to see the Node cordoned"
	case left > 0:
		r.Message, r.RequeueAfter = settles, left
	case !ns.listedAgain:
		r.Message, ns.listedAgain = settles, true
		return true
	default:
		r.Done, r.Message, r.RequeueAfter = true, "", 0
	}
	return false
}
