package runner

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// Request says which Node to drain, and how. Only Node is required.
type Request struct {
	// Node as the caller last observed it. It is shared and not changed.
	Node *corev1.Node
	// Owner is enqueued through [Runner.Source] when the state of the drain changes; empty: the name of the Node, for a reconciler of
	// Nodes.
	Owner types.NamespacedName
	// Rules decide about the Pods of the Node; nil means [drain.DefaultRules].
	Rules []drain.Rule
	// Policy decides how the drain escalates; nil is the zero policy, which evicts without a limit.
	Policy *drain.Policy
	// StartedAt is when the drain began. The times of the policy count from it, so the owner persists it. Zero means the first Step of
	// this process.
	StartedAt time.Time
	// PoweredOff: the provider confirms that the instance is off. It counts only if the policy has SkipUnreachableAfter.
	PoweredOff bool
}

// policy of a request without one evicts without a limit.
func (req *Request) policy() drain.Policy { return *cmp.Or(req.Policy, &drain.Policy{}) }

// rules are those of the request, with the policy as the last rule.
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
	// Done: the Pods of the Node are completely known, none of them blocks, and the Node is cordoned, unless others undo that again and
	// again.
	Done   bool
	Counts drain.Counts
	// Blockers are sorted; one with [drain.ReasonUncordoned], which has no Pods, is the last. Their Since is as far as this process
	// remembers.
	Blockers []drain.Blocker
	// Event is what an event is to report, once for each drain in a process: that others make the Node schedulable again. Nil otherwise.
	Event *drain.Blocker
	// Message says what is left to do, in the lines of Cluster API without the first one; empty when Done. Equal states give equal
	// messages.
	Message string
	// RequeueAfter is when to call Step again even if the owner is not woken; 0 when Done.
	RequeueAfter time.Duration
}

// againAt requests the next Step at a time that is known already; zero is none.
func (r *Result) againAt(at, now time.Time) {
	if !at.IsZero() {
		r.RequeueAfter = min(r.RequeueAfter, max(at.Sub(now), time.Millisecond))
	}
}

// settle decides whether a Node without blocking Pods is drained, or its Pods are to be listed again to confirm that. The settle time
// counts from the cordon, and from the last Pod that was bound after it.
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

// joinLines joins two texts that may be empty.
func joinLines(a, b string) string { return strings.Trim(a+"\n"+b, "\n") }
