package machine

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestAProviderConditionIsMirroredSoThatTheServerAcceptsIt(t *testing.T) {
	fallback := engine.Condition("X", metav1.ConditionFalse, "Fallback", "")
	said := func(status metav1.ConditionStatus, reason, message string) contract.Opt[metav1.Condition] {
		return contract.Some(metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message})
	}
	for name, tc := range map[string]struct {
		said contract.Opt[metav1.Condition]
		want metav1.Condition
	}{
		"nothing said": {want: fallback},
		"copied":       {said: said("False", "NoQuota", "none left"), want: engine.Condition("X", "False", "NoQuota", "none left")},
		"true without a reason": {said: said("True", contract.ReasonNotReported, ""),
			want: engine.Condition("X", "True", contract.ReasonReady, "")},
		"a reason with blanks": {
			said: said("False", "no quota", "none left"),
			want: engine.Condition("X", "False", contract.ReasonInvalidCondition, `reason "no quota": none left`)},
		"a reason that ends badly": {
			said: said("False", "NoQuota:", ""), want: engine.Condition("X", "False", contract.ReasonInvalidCondition, `reason "NoQuota:": `)},
		"a reason that begins badly": {
			said: said("False", "1st", ""), want: engine.Condition("X", "False", contract.ReasonInvalidCondition, `reason "1st": `)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, engine.Mirror("X", tc.said, fallback)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTheTimeOfAMirroredConditionIsItsOwnAndMovesWithTheStatusOnly(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 700_000_000, time.UTC)
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago).Truncate(time.Second)) }
	said := metav1.Condition{Type: "Ready", Status: "True", Reason: "R", LastTransitionTime: at(time.Hour)}
	mirrored := engine.Mirror("X", contract.Some(said), metav1.Condition{})
	own := engine.Condition("X", metav1.ConditionTrue, "R", "")
	stored := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "X", Status: status, Reason: reason, LastTransitionTime: at(time.Minute)}}
	}
	for name, tc := range map[string]struct {
		have []metav1.Condition
		want metav1.Condition
		when metav1.Time
	}{
		"a new one that is mirrored":         {want: mirrored, when: at(time.Hour)},
		"a new one of our own":               {want: own, when: at(0)},
		"the status changes":                 {have: stored("False", "R"), want: mirrored, when: at(time.Hour)},
		"the status changes, of our own":     {have: stored("False", "R"), want: own, when: at(0)},
		"the reason changes, not the status": {have: stored("True", "Other"), want: mirrored, when: at(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			got := contract.ChangedConditions(tc.have, []metav1.Condition{tc.want}, 0, now)
			if len(got) != 1 || !got[0].LastTransitionTime.Equal(&tc.when) {
				t.Errorf("want the time %s, got %+v", tc.when, got)
			}
		})
	}
	if got := contract.ChangedConditions(stored("True", "R"), []metav1.Condition{mirrored}, 0, now); len(got) > 0 {
		t.Errorf("a time alone is no news, got %+v", got)
	}
}

func TestMessagesOfOthersAreBounded(t *testing.T) {
	s := &Scope{}
	s.Assert(engine.Condition("X", metav1.ConditionFalse, "R", strings.Repeat("ü", engine.MaxMessageLength)))
	got, _ := s.Condition("X")
	if n := len(got.Message); n > engine.MaxMessageLength+4 || !utf8.ValidString(got.Message) {
		t.Errorf("a message of %d bytes, valid %v", n, utf8.ValidString(got.Message))
	}
}

// Defect of Cluster API: conditions with values of another type panic.
func TestAMalformedConditionOfAProviderIsReportedWithoutAPanic(t *testing.T) {
	for name, ready := range map[string]any{
		"a status that is no text":   map[string]any{"type": "Ready", "status": int64(5)},
		"a status of no meaning":     map[string]any{"type": "Ready", "status": "Maybe"},
		"a fraction of a generation": map[string]any{"type": "Ready", "status": "True", "observedGeneration": 1.5},
		"a reason that is a list":    map[string]any{"type": "Ready", "status": "True", "reason": []any{}},
		"a time that is none":        map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"},
		"a message that is a number": map[string]any{"type": "Ready", "status": "False", "message": int64(1)},
	} {
		t.Run(name, func(t *testing.T) {
			found := present("Infra")
			found.Object.Object["status"] = map[string]any{"conditions": []any{ready}}
			facts := infrastructureFacts{External: found}
			if err := contract.LayoutsOf(contract.V1Beta2).InfraMachine.Read(found.Object, &facts.Machine); err != nil {
				t.Fatal(err)
			}
			c := decideInfrastructure(facts).Condition
			if c.Status != metav1.ConditionUnknown || c.Reason != contract.ReasonInvalidCondition || c.Message == "" {
				t.Errorf("want Unknown, %s, got %+v", contract.ReasonInvalidCondition, c)
			}
		})
	}
}
