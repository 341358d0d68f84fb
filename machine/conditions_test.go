package machine

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
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
			require.Empty(t, cmp.Diff(tc.want, engine.Mirror("X", tc.said, fallback)))
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
			require.False(t, len(got) != 1 || !got[0].LastTransitionTime.Equal(&tc.when), "want the time %s, got %+v", tc.when, got)
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
			require.NoError(t, contract.LayoutsOf(contract.V1Beta2).InfraMachine.Read(found.Object, &facts.Machine))
			c := decideInfrastructure(facts).Condition
			require.False(t, c.Status != metav1.ConditionUnknown || c.Reason != contract.ReasonInvalidCondition || c.Message == "")
		})
	}
}

// with replaces conditions of a Machine that is well.
func with(changed ...metav1.Condition) []metav1.Condition {
	yes := func(kind string) metav1.Condition { return engine.Condition(kind, metav1.ConditionTrue, "Ready", "") }
	return append(changed,
		engine.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, ""),
		engine.Condition(contract.ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, ""),
		yes(contract.ConditionBootstrapConfigReady), yes(contract.ConditionInfrastructureReady), yes(ConditionNodeHealthy),
	)
}

func TestReadyNamesWhatIsMissing(t *testing.T) {
	no := func(kind, message string) metav1.Condition {
		return engine.Condition(kind, metav1.ConditionFalse, "NotReady", message)
	}
	unknown := engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionUnknown, "Dunno", "unread")
	is := func(kind, reason, message string) metav1.Condition {
		return engine.Condition(kind, metav1.ConditionTrue, reason, message)
	}
	gate := func(kind string, negative bool) []contract.ReadinessGate {
		return []contract.ReadinessGate{{ConditionType: kind, Negative: negative}}
	}
	const infra, health = contract.ConditionInfrastructureReady, ConditionNodeHealthy
	const ready, bad, open = "True Ready", "False NotReady", "Unknown ReadyUnknown"
	ill := no(health, "ill")
	for name, tc := range map[string]struct {
		facts readyFacts
		want  string
	}{
		"all is well":         {readyFacts{Conditions: with()}, ready},
		"one is false":        {readyFacts{Conditions: with(no(infra, "no quota"))}, bad + " * InfrastructureReady: no quota"},
		"without a message":   {readyFacts{Conditions: with(no(infra, ""))}, bad + " * InfrastructureReady: NotReady"},
		"one is missing":      {readyFacts{Conditions: with()[:4]}, open + " * NodeHealthy: Condition not yet reported"},
		"a list is indented":  {readyFacts{Conditions: with(no(health, "* a: b\n* c: d"))}, bad + " * NodeHealthy:\n  * a: b\n  * c: d"},
		"lines become a list": {readyFacts{Conditions: with(no(infra, "two:\n* a\n* b"))}, bad + " * InfrastructureReady:\n  two:\n  * a\n  * b"},
		"a health check has failed": {readyFacts{Conditions: with(no(contract.ConditionHealthCheckSucceeded, "5m"))},
			bad + " * HealthCheckSucceeded: 5m"},
		"bad news count more than unknown ones and keep their place": {readyFacts{Conditions: with(unknown, ill)},
			bad + " * BootstrapConfigReady: unread\n* NodeHealthy: ill"},
		"and before them": {
			readyFacts{Conditions: with(no(infra, "no quota"), engine.Condition(health, metav1.ConditionUnknown, "Dunno", "unread"))},
			bad + " * InfrastructureReady: no quota\n* NodeHealthy: unread"},
		"what is well has no line": {readyFacts{Conditions: with(is(infra, "Ready", "spot"), ill)}, bad + " * NodeHealthy: ill"},
		"an update in place": {readyFacts{Conditions: with(is(contract.ConditionUpdating, ReasonInPlaceUpdating, "In-place update in progress"))},
			bad + " * Updating: In-place update in progress"},
		"a gate that is missing": {readyFacts{Conditions: with(), Gates: gate("Licensed", false)},
			open + " * Licensed: Condition not yet reported"},
		"a gate that is closed": {readyFacts{Conditions: with(no("Licensed", "expired")), Gates: gate("Licensed", false)},
			bad + " * Licensed: expired"},
		"a negative gate that is open": {readyFacts{Conditions: with(no("Banned", "")), Gates: gate("Banned", true)}, ready},
		"a negative gate that is closed": {readyFacts{Conditions: with(is("Banned", "R", "by admin")), Gates: gate("Banned", true)},
			bad + " * Banned: by admin"},
		"a condition that is asked for twice": {readyFacts{Conditions: with(ill), Gates: gate(health, false)}, bad + " * NodeHealthy: ill"},
		"Ready cannot wait for itself": {readyFacts{Conditions: with(), Gates: gate(contract.ConditionReady, false)},
			"Unknown InternalError The readiness gate Ready is the condition itself: remove that gate"},
		"what no step sets is not missed": {
			readyFacts{Conditions: with()[:2], NeverSet: []string{contract.ConditionBootstrapConfigReady, infra, health}}, ready},
		"but counts when it is there": {readyFacts{Conditions: with(no(infra, "no quota")), NeverSet: []string{infra}},
			bad + " * InfrastructureReady: no quota"},
		"and a gate asks for it": {readyFacts{Conditions: with()[:4], NeverSet: []string{health}, Gates: gate(health, false)},
			open + " * NodeHealthy: Condition not yet reported"},
		"in a deletion it is well that things are gone": {readyFacts{Deleting: true, Conditions: with(
			is(contract.ConditionDeleting, contract.ReasonDeletingNode, "very long"), no(contract.ConditionBootstrapConfigReady, ""), no(infra, ""),
			engine.Condition(health, metav1.ConditionFalse, ReasonNodeDeleted, ""))},
			bad + " * Deleting: Machine deletion in progress, stage: DeletingNode"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{"Ready=" + tc.want}, textOf([]metav1.Condition{decideReady(tc.facts)}))
		})
	}
}

func TestAMachineIsAvailableWhenItHasBeenReadyForLongEnough(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		ready    metav1.ConditionStatus
		since    time.Time
		minReady time.Duration
		want     metav1.Condition
		again    time.Duration
	}{
		"not ready": {ready: metav1.ConditionFalse,
			want: engine.Condition(contract.ConditionAvailable, metav1.ConditionFalse, contract.ReasonNotReady, "")},
		"unknown": {ready: metav1.ConditionUnknown,
			want: engine.Condition(contract.ConditionAvailable, metav1.ConditionFalse, contract.ReasonNotReady, "")},
		"at once": {ready: metav1.ConditionTrue, since: now,
			want: engine.Condition(contract.ConditionAvailable, metav1.ConditionTrue, contract.ReasonAvailable, "")},
		"for long enough": {ready: metav1.ConditionTrue, since: now.Add(-time.Minute), minReady: time.Minute,
			want: engine.Condition(contract.ConditionAvailable, metav1.ConditionTrue, contract.ReasonAvailable, "")},
		"not for long": {ready: metav1.ConditionTrue, since: now.Add(-20 * time.Second), minReady: time.Minute, again: 40 * time.Second,
			want: engine.Condition(contract.ConditionAvailable, metav1.ConditionFalse, ReasonWaitingForMinReadySeconds, "")},
	} {
		t.Run(name, func(t *testing.T) {
			got, again := decideAvailable(tc.ready, tc.since, tc.minReady, now)
			if diff := cmp.Diff(tc.want, got); diff != "" || again != tc.again {
				t.Errorf("again after %s, want %s; -want +got:\n%s", again, tc.again, diff)
			}
		})
	}
}

// A new leader whose clock is behind must not take the availability of every Machine back.
func TestTheClockOfTheProcessBeforeMayHaveBeenAhead(t *testing.T) {
	now := time.Unix(10_000, 0)
	saying := func(kind string, at time.Time) metav1.Condition {
		c := engine.Condition(kind, metav1.ConditionTrue, "R", "")
		c.LastTransitionTime = metav1.NewTime(at)
		return c
	}
	for name, tc := range map[string]struct {
		ready, available time.Duration // from now; zero: not available yet
		minReady         time.Duration
		want             metav1.ConditionStatus
		again            time.Duration
	}{
		"it is ready since a time to come": {ready: time.Minute, want: metav1.ConditionTrue},
		"it was found to be available":     {ready: -30 * time.Second, available: time.Minute, minReady: time.Minute, want: metav1.ConditionTrue},
		"both lie ahead": {ready: time.Hour, available: time.Hour + time.Minute, minReady: time.Minute,
			want: metav1.ConditionTrue},
		"it was not, and has to wait": {ready: 10 * time.Second, minReady: time.Minute, want: metav1.ConditionFalse,
			again: 70 * time.Second},
		"it was, and more time is asked for since": {ready: -time.Minute, available: -30 * time.Second, minReady: 90 * time.Second,
			want: metav1.ConditionFalse, again: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{Now: now, Stored: []metav1.Condition{saying(contract.ConditionReady, now.Add(tc.ready))}}}
			s.State.MinReady = contract.Some(tc.minReady)
			if tc.available != 0 {
				s.Stored = append(s.Stored, saying(contract.ConditionAvailable, now.Add(tc.available)))
			}
			s.Assert(engine.Condition(contract.ConditionReady, metav1.ConditionTrue, "R", ""))
			again := s.assertAvailable()
			got, _ := engine.Find(s.Asserted, contract.ConditionAvailable)
			require.False(t, got.Status != tc.want || again != tc.again)
		})
	}
}

func TestAMachineIsUpdatingWhileItIsMarked(t *testing.T) {
	no := engine.Condition(contract.ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, "")
	yes := engine.Condition(contract.ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdating, "In-place update in progress")
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        metav1.Condition
	}{
		"not marked":            {nil, no},
		"marked":                {map[string]string{contract.InPlaceUpdateAnnotation: ""}, yes},
		"the hook is pending":   {map[string]string{contract.PendingHooksAnnotation: "BeforeDelete,UpdateMachine"}, yes},
		"another hook is":       {map[string]string{contract.PendingHooksAnnotation: "UpdateMachineLater"}, no},
		"nothing is pending":    {map[string]string{contract.PendingHooksAnnotation: ""}, no},
		"marked and hook is so": {map[string]string{contract.InPlaceUpdateAnnotation: "", contract.PendingHooksAnnotation: "UpdateMachine"}, yes},
	} {
		t.Run(name, func(t *testing.T) {
			state := contract.MachineState{Metadata: contract.Metadata{Annotations: tc.annotations}}
			require.Empty(t, cmp.Diff(tc.want, decideUpdating(&state)))
		})
	}
}

func TestTheEndOfCertificatesIsKnownFromTheMachineOrItsBootstrapConfiguration(t *testing.T) {
	t.Parallel()
	const text, otherText = "2027-01-31T12:00:00+01:00", "2028-01-01T00:00:00Z"
	at, other := time.Date(2027, 1, 31, 11, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
	wrong := func(of, value string) string {
		return "the annotation machine.cluster.x-k8s.io/certificates-expiry of the " + of + " is \"" + value +
			"\": want an RFC 3339 time such as 2027-01-31T12:00:00Z"
	}
	said := func(text string) map[string]string {
		return map[string]string{contract.CertificatesExpiryAnnotation: text}
	}
	for name, tc := range map[string]struct {
		stored          time.Time
		machine, config map[string]string
		unread          bool
		want            time.Time
		problem         string
	}{
		"the Machine says it":            {machine: said(text), want: at},
		"the configuration says it":      {config: said(text), want: at},
		"the Machine goes first":         {machine: said(text), config: said(otherText), want: at},
		"it is not reported any more":    {stored: other},
		"the configuration was not read": {stored: other, unread: true, want: other},
		"the Machine says what is no time": {
			machine: said("soon"), config: said(text), stored: other, want: other, problem: wrong("Machine", "soon")},
		"the configuration says what is no time": {config: said(""), problem: wrong("bootstrap configuration", "")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decideCertificates(tc.stored, tc.machine, tc.config, tc.unread)
			require.Equal(t, tc.want, got)
			if tc.problem == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.problem)
		})
	}
}

func TestCertificatesStep(t *testing.T) {
	t.Run("a worker is left as it is", func(t *testing.T) {
		s := &Scope{}
		s.State.CertificatesExpire = time.Unix(1, 0)
		s.State.Annotations = map[string]string{contract.CertificatesExpiryAnnotation: "2027-01-31T12:00:00Z"}
		_, err := certificatesStep(t.Context(), s)
		require.NoError(t, err)
		require.True(t, s.Update.CertificatesExpire.Keeps())
	})
}
