package machine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract/external"
)

// sparedFacts are what becomes of a condition about a referenced object that could not be read depends on.
type sparedFacts struct {
	// Unread: the object could not be read, and nobody has to mend anything for that to change.
	Unread bool
	// Stored is the condition that is there, empty if none is.
	Stored metav1.Condition
}

// isSpared reports whether what is said of a referenced object may stay for a while, although it could not be read: at the start of a
// process none can, until the first list of its kind has come back, and that must not change the readiness of every Machine twice.
func isSpared(f sparedFacts) bool {
	return f.Unread && f.Stored.Type != "" && f.Stored.Status != metav1.ConditionUnknown
}

// isUnreadYet reports whether an object is unread for no reason that a person could mend.
func isUnreadYet(e external.Object) bool {
	reason := e.Problem.Reason
	return e.Presence == external.Unread && (reason == "" || reason == external.ReasonCacheNotSynced)
}

// spareUnread takes back what this pass says of referenced objects that it could not read, for Options.ConnectionGrace from the first
// such pass on, and returns what is left of that.
func (s *Scope) spareUnread() time.Duration {
	var spared []string
	for kind, referenced := range map[string]external.Object{
		ConditionBootstrapConfigReady: s.Bootstrap, ConditionInfrastructureReady: s.Infrastructure,
	} {
		stored, _ := findCondition(s.stored, kind)
		if isSpared(sparedFacts{Unread: isUnreadYet(referenced), Stored: stored}) {
			spared = append(spared, kind)
		}
	}
	since := s.env.memory.unreadSince(s.State.Key, len(spared) > 0, s.Now)
	left := since.Add(s.env.options.ConnectionGrace).Sub(s.Now)
	if len(spared) == 0 || left <= 0 {
		return 0
	}
	s.asserted = slices.DeleteFunc(s.asserted, func(c metav1.Condition) bool { return slices.Contains(spared, c.Type) })
	return left
}
