package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// with replaces conditions of a Machine that is well.
func with(changed ...metav1.Condition) []metav1.Condition {
	yes := func(kind string) metav1.Condition { return engine.Condition(kind, metav1.ConditionTrue, "Ready", "") }
	return append(changed,
		engine.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, ""),
		engine.Condition(contract.ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, ""),
		yes(contract.ConditionBootstrapConfigReady), yes(contract.ConditionInfrastructureReady), yes(ConditionNodeHealthy),
	)
}

func TestReadyNamesWhatStandsInTheWay(t *testing.T) {
	no := func(kind, message string) metav1.Condition {
		return engine.Condition(kind, metav1.ConditionFalse, "NotReady", message)
	}
	unknown := func(kind, message string) metav1.Condition {
		return engine.Condition(kind, metav1.ConditionUnknown, "Dunno", message)
	}
	for name, tc := range map[string]struct {
		facts  readyFacts
		status metav1.ConditionStatus
		says   []string
	}{
		"all is well": {facts: readyFacts{Conditions: with()}, status: metav1.ConditionTrue},
		"one is false": {
			facts:  readyFacts{Conditions: with(no(contract.ConditionInfrastructureReady, "no quota"))},
			status: metav1.ConditionFalse, says: []string{"* InfrastructureReady: no quota"}},
		"without a message its reason is told": {
			facts:  readyFacts{Conditions: with(no(contract.ConditionInfrastructureReady, ""))},
			status: metav1.ConditionFalse, says: []string{"* InfrastructureReady: NotReady"}},
		"one is missing": {
			facts:  readyFacts{Conditions: with()[:4]},
			status: metav1.ConditionUnknown, says: []string{"* NodeHealthy: Condition not yet reported"}},
		"bad news count more than unknown ones and keep their place": {
			facts:  readyFacts{Conditions: with(unknown(contract.ConditionBootstrapConfigReady, "unread"), no(ConditionNodeHealthy, "ill"))},
			status: metav1.ConditionFalse, says: []string{"* BootstrapConfigReady: unread", "* NodeHealthy: ill"}},
		"what is well and says something is not told": {
			facts: readyFacts{Conditions: with(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionTrue, "Ready", "spot"),
				no(ConditionNodeHealthy, "ill"))},
			status: metav1.ConditionFalse, says: []string{"* NodeHealthy: ill"}},
		"an update in place": {
			facts: readyFacts{Conditions: with(
				engine.Condition(contract.ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdating, "In-place update in progress"))},
			status: metav1.ConditionFalse, says: []string{"* Updating: In-place update in progress"}},
		"a health check that failed": {
			facts:  readyFacts{Conditions: with(no(contract.ConditionHealthCheckSucceeded, "unhealthy for 5m"))},
			status: metav1.ConditionFalse, says: []string{"* HealthCheckSucceeded: unhealthy for 5m"}},
		"a list is indented": {
			facts:  readyFacts{Conditions: with(no(ConditionNodeHealthy, "* Node.Ready: no CNI\n* Node.DiskPressure: full"))},
			status: metav1.ConditionFalse, says: []string{"* NodeHealthy:", "  * Node.Ready: no CNI", "  * Node.DiskPressure: full"}},
		"lines become a list": {
			facts:  readyFacts{Conditions: with(no(contract.ConditionInfrastructureReady, "two things:\n* a\n* b"))},
			status: metav1.ConditionFalse, says: []string{"* InfrastructureReady:", "  two things:", "  * a", "  * b"}},
		"a readiness gate that is missing": {
			facts:  readyFacts{Conditions: with(), Gates: []contract.ReadinessGate{{ConditionType: "Licensed"}}},
			status: metav1.ConditionUnknown, says: []string{"* Licensed: Condition not yet reported"}},
		"a readiness gate that is closed": {
			facts:  readyFacts{Conditions: with(no("Licensed", "expired")), Gates: []contract.ReadinessGate{{ConditionType: "Licensed"}}},
			status: metav1.ConditionFalse, says: []string{"* Licensed: expired"}},
		"a negative readiness gate that is open": {
			facts:  readyFacts{Conditions: with(no("Banned", "")), Gates: []contract.ReadinessGate{{ConditionType: "Banned", Negative: true}}},
			status: metav1.ConditionTrue},
		"a negative readiness gate that is closed": {
			facts: readyFacts{Conditions: with(engine.Condition("Banned", metav1.ConditionTrue, "R", "by admin")),
				Gates: []contract.ReadinessGate{{ConditionType: "Banned", Negative: true}}},
			status: metav1.ConditionFalse, says: []string{"* Banned: by admin"}},
		"a condition that is asked for twice is told once": {
			facts: readyFacts{Conditions: with(no(ConditionNodeHealthy, "ill")),
				Gates: []contract.ReadinessGate{{ConditionType: ConditionNodeHealthy}}},
			status: metav1.ConditionFalse, says: []string{"* NodeHealthy: ill"}},
		"what no step is there to say is not missed": {
			facts: readyFacts{Conditions: with()[:2],
				NeverSet: []string{contract.ConditionBootstrapConfigReady, contract.ConditionInfrastructureReady, ConditionNodeHealthy}},
			status: metav1.ConditionTrue},
		"but counts when it is said": {
			facts: readyFacts{Conditions: with(no(contract.ConditionInfrastructureReady, "no quota")),
				NeverSet: []string{contract.ConditionInfrastructureReady}},
			status: metav1.ConditionFalse, says: []string{"* InfrastructureReady: no quota"}},
		"and a readiness gate asks for it": {
			facts: readyFacts{Conditions: with()[:4], NeverSet: []string{ConditionNodeHealthy},
				Gates: []contract.ReadinessGate{{ConditionType: ConditionNodeHealthy}}},
			status: metav1.ConditionUnknown, says: []string{"* NodeHealthy: Condition not yet reported"}},
		"Ready cannot wait for itself": {
			facts:  readyFacts{Conditions: with(), Gates: []contract.ReadinessGate{{ConditionType: contract.ConditionReady}}},
			status: metav1.ConditionUnknown, says: []string{"The readiness gate Ready is the condition itself: remove that gate"}},
		"in a deletion it is well that things are gone": {
			facts: readyFacts{Deleting: true, Conditions: with(
				engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeletingNode, "very long"),
				engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionFalse, contract.ReasonDoesNotExist, ""),
				engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, contract.ReasonDeleted, ""),
				engine.Condition(ConditionNodeHealthy, metav1.ConditionFalse, ReasonNodeDeleted, ""))},
			status: metav1.ConditionFalse, says: []string{"* Deleting: Machine deletion in progress, stage: DeletingNode"}},
	} {
		t.Run(name, func(t *testing.T) {
			reasons := map[metav1.ConditionStatus]string{
				metav1.ConditionTrue: contract.ReasonReady, metav1.ConditionFalse: contract.ReasonNotReady,
				metav1.ConditionUnknown: contract.ReasonReadyUnknown,
			}
			want := engine.Condition(contract.ConditionReady, tc.status, reasons[tc.status], strings.Join(tc.says, "\n"))
			if name == "Ready cannot wait for itself" {
				want.Reason = contract.ReasonInternalError
			}
			if diff := cmp.Diff(want, decideReady(tc.facts)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
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
		"it was found to be available": {ready: -30 * time.Second, available: time.Minute, minReady: time.Minute,
			want: metav1.ConditionTrue},
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
			if got.Status != tc.want || again != tc.again {
				t.Errorf("want %s again after %s, got %s after %s", tc.want, tc.again, got.Status, again)
			}
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
			if diff := cmp.Diff(tc.want, decideUpdating(&state)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
