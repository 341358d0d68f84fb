package runner

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Request says which Node to drain, and how.
type Request struct {
	// Node as the caller last observed it. It is shared and not changed.
	Node *corev1.Node
	// Owner is enqueued through [Runner.Source] when the state of the drain changes.
	Owner types.NamespacedName
	// Rules decide about the Pods of the Node; nil means [drain.DefaultRules].
	Rules []drain.Rule
	// Policy decides how the drain escalates; nil is the zero policy, which evicts without a limit.
	Policy *drain.Policy
	// StartedAt is when the drain began. The times of the policy count from it, so the owner persists it. Zero means the first Step of
	// this process.
	StartedAt time.Time
	// PoweredOff: the provider confirms that the instance is off. It counts only if the policy has UnreachableAfter.
	PoweredOff bool
}

// policy of a request without one evicts without a limit.
func (req *Request) policy() drain.Policy {
	if req.Policy == nil {
		return drain.Policy{}
	}
	return *req.Policy
}

// Result is the state of the drain of a Node.
type Result struct {
	// Done: the Node is cordoned, its Pods are completely known and none of them blocks.
	Done   bool
	Counts drain.Counts
	// Blockers are sorted. Their Since is as far as this process remembers.
	Blockers []drain.Blocker
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

// contested reports that others uncordon the Node, and when it is cordoned again.
func (r *Result) contested(by *patch.UndoneError) {
	r.Message = strings.TrimSuffix("* "+by.Error()+"\n"+r.Message, "\n")
	r.RequeueAfter = min(r.RequeueAfter, by.After)
}

// settle decides whether a Node without blocking Pods is drained, or its Pods are to be listed again to confirm that.
func (r *Result) settle(listedAgain bool, settle time.Duration, cordonedSince, now time.Time) (confirm bool) {
	switch left := settle - now.Sub(cordonedSince); {
	case cordonedSince.IsZero():
		r.Message = "* waiting to see the Node cordoned"
	case left > 0:
		r.Message, r.RequeueAfter = settles, left
	case !listedAgain:
		r.Message = settles
		return true
	default:
		r.Done, r.Message, r.RequeueAfter = true, "", 0
	}
	return false
}
