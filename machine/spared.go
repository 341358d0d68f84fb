package machine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract/external"
)

// sparedFacts are the inputs of isSpared.
type sparedFacts struct {
	// Unread: the object could not be read, for a reason that ends without action by a person.
	Unread bool
	// Stored is the stored condition, empty if there is none.
	Stored metav1.Condition
}

// isSpared reports whether the stored condition of a referenced object stays for a while, although the object could not be read: at the
// start of a process no object can be read until the first list of its kind is complete, and that must not change the readiness of every
// Machine twice.
func isSpared(f sparedFacts) bool {
	return f.Unread && f.Stored.Type != "" && f.Stored.Status != metav1.ConditionUnknown
}

// isUnreadYet reports whether an object is unread for a reason that a person cannot fix.
func isUnreadYet(e external.Object) bool {
	reason := e.Problem.Reason
	return e.Presence == external.Unread && (reason == "" || reason == external.ReasonCacheNotSynced)
}

// spareUnread restores the conditions of referenced objects that this pass could not read, for Options.ConnectionGrace from the first such
// pass on, and returns the rest of that duration.
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
