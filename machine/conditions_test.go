package machine

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

func TestAProviderConditionIsMirroredSoThatTheServerAcceptsIt(t *testing.T) {
	fallback := condition("X", metav1.ConditionFalse, "Fallback", "")
	said := func(status metav1.ConditionStatus, reason, message string) contract.Opt[metav1.Condition] {
		return contract.Some(metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message})
	}
	for name, tc := range map[string]struct {
		said contract.Opt[metav1.Condition]
		want metav1.Condition
	}{
		"nothing said":          {want: fallback},
		"copied":                {said: said("False", "NoQuota", "none left"), want: condition("X", "False", "NoQuota", "none left")},
		"true without a reason": {said: said("True", contract.ReasonNotReported, ""), want: condition("X", "True", ReasonReady, "")},
		"a reason with blanks": {
			said: said("False", "no quota", "none left"),
			want: condition("X", "False", contract.ReasonInvalidCondition, `reason "no quota": none left`)},
		"a reason that ends badly": {
			said: said("False", "NoQuota:", ""), want: condition("X", "False", contract.ReasonInvalidCondition, `reason "NoQuota:": `)},
		"a reason that begins badly": {
			said: said("False", "1st", ""), want: condition("X", "False", contract.ReasonInvalidCondition, `reason "1st": `)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, mirror("X", tc.said, fallback)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMessagesOfOthersAreBounded(t *testing.T) {
	s := &Scope{}
	s.Assert(condition("X", metav1.ConditionFalse, "R", strings.Repeat("ü", maxMessageLength)))
	got, _ := s.Condition("X")
	if n := len(got.Message); n > maxMessageLength+4 || !utf8.ValidString(got.Message) {
		t.Errorf("a message of %d bytes, valid %v", n, utf8.ValidString(got.Message))
	}
}
