package machineset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// statusFacts are what the status of a set depends on.
type statusFacts struct {
	Set *contract.MachineSetState
	// Machines are those that the set controls, those in deletion included. Unobserved: they could not be read.
	Machines   []*contract.MachineState
	Unobserved bool
	// Selector is the selector as text, and TemplateLabels are the labels that new Machines get.
	Selector       string
	TemplateLabels map[string]string
	// Missing are the kinds of the templates that do not exist, bootstrap before infrastructure; Blocked is what else keeps the set
	// from creating.
	Missing, Blocked []string
	// Cause is the reason of a hold that Cluster API does not know, empty without one.
	Cause string
	// Unclaimed is why Machines are neither adopted nor released, and Kept why surplus Machines stay, for a reason that Cluster API
	// does not know.
	Unclaimed, Kept []string
	KeptCause       string
	Now             time.Time
}

// counters are the numbers of a status.
type counters struct {
	Replicas, Ready, Available, UpToDate   int32
	FullyLabeled, NodeReady, NodeAvailable int32
}

// Reasons of conditions that only sets have. Their other conditions and reasons are those of package contract.
const (
	// ReasonUpToDateUnknown is Cluster API's.
	ReasonUpToDateUnknown = "UpToDateUnknown"
	// ReasonMachineDeletionFailed is the reason of the condition ScalingDown while the API server refuses to delete a Machine.
	ReasonMachineDeletionFailed = "MachineDeletionFailed"
)

// upToDateGrace is for how long a new Machine may have no condition UpToDate without being counted as unknown, so that the set's
// condition does not flicker. Rule: Cluster API's setMachinesUpToDateCondition.
const upToDateGrace = 10 * time.Second

// count counts, and returns when time alone changes a number, zero when it does not: a Node is as old as the clock of another machine
// says, which may be ahead. A Machine that is changed in place is neither ready nor available nor up to date, whatever it says of itself.
func (f statusFacts) count() (c counters, again time.Duration) {
	c = counters{Replicas: int32(len(f.Machines))}
	for _, m := range f.Machines {
		if contains(m.Labels, f.TemplateLabels) {
			c.FullyLabeled++
		}
		if ready, found := pass.Find(m.Conditions, contract.ConditionNodeReady); found && ready.Status == metav1.ConditionTrue {
			c.NodeReady++
			if left := ready.LastTransitionTime.Add(f.Set.Template.MinReady.Or(0)).Sub(f.Now); left > 0 {
				again = pass.Soonest(again, left)
			} else {
				c.NodeAvailable++
			}
		}
		if m.UpdatingInPlace() {
			continue
		}
		for kind, n := range map[string]*int32{
			contract.ConditionReady: &c.Ready, contract.ConditionAvailable: &c.Available, contract.ConditionUpToDate: &c.UpToDate,
		} {
			if pass.HasStatus(m.Conditions, kind, metav1.ConditionTrue) {
				*n++
			}
		}
	}
	return c, again
}

func contains(have, want map[string]string) bool {
	for key, value := range want {
		if got, found := have[key]; !found || got != value {
			return false
		}
	}
	return true
}

// conditions are those of the set, the condition Paused aside, and when time alone changes them, zero when it does not.
// Types, reasons and messages are Cluster API's.
func (f statusFacts) conditions() ([]metav1.Condition, time.Duration) {
	if f.Unobserved {
		all := make([]metav1.Condition, 0, 6)
		for _, kind := range []string{
			contract.ConditionScalingUp, contract.ConditionScalingDown, contract.ConditionMachinesReady,
			contract.ConditionMachinesUpToDate, contract.ConditionRemediating, contract.ConditionDeleting,
		} {
			all = append(all, pass.Condition(kind, metav1.ConditionUnknown, contract.ReasonInternalError, pass.SeeLogs))
		}
		return all, 0
	}
	upToDate, again := f.upToDate()
	stale, staleAgain := f.stale()
	all := []metav1.Condition{f.scalingUp(), f.scalingDown(stale), f.ready(), upToDate, f.remediating(), f.deleting(stale)}
	return all, pass.Soonest(again, staleAgain)
}

// desired returns the desired number of Machines: zero for a set in deletion.
func (f statusFacts) desired() (int32, bool) {
	desired, known := f.Set.Replicas.Get()
	if !f.Set.Deleting.IsZero() {
		desired = 0
	}
	return desired, known
}

func waitingForReplicas(kind string) metav1.Condition {
	return pass.Condition(kind, metav1.ConditionUnknown, contract.ReasonWaitingForReplicasSet, "Waiting for spec.replicas set")
}

func (f statusFacts) scalingUp() metav1.Condition {
	desired, known := f.desired()
	if !known {
		return waitingForReplicas(contract.ConditionScalingUp)
	}
	missing := ""
	switch len(f.Missing) {
	case 0:
	case 1:
		missing = f.Missing[0] + " does not exist"
	default:
		missing = strings.Join(f.Missing, " and ") + " do not exist"
	}
	current := int32(len(f.Machines))
	if current >= desired {
		message := ""
		if f.Set.Deleting.IsZero() && missing != "" {
			message = "Scaling up would be blocked because " + missing
		} else if f.Set.Deleting.IsZero() && len(f.Unclaimed) > 0 {
			message = "Scaling up would be blocked because:" + bullets(f.Unclaimed)
		}
		return pass.Condition(contract.ConditionScalingUp, metav1.ConditionFalse, contract.ReasonNotScalingUp, message)
	}
	message := fmt.Sprintf("Scaling up from %d to %d replicas", current, desired)
	blocked := slices.Clone(f.Blocked)
	if missing != "" {
		blocked = append(blocked, missing)
	}
	if len(blocked) > 0 {
		message += " is blocked because:\n* " + strings.Join(blocked, "\n* ")
	}
	return pass.Condition(contract.ConditionScalingUp, metav1.ConditionTrue, cmp.Or(f.Cause, contract.ReasonScalingUp), message)
}

func (f statusFacts) scalingDown(stale string) metav1.Condition {
	desired, known := f.desired()
	if !known {
		return waitingForReplicas(contract.ConditionScalingDown)
	}
	current := int32(len(f.Machines))
	if current <= desired {
		return pass.Condition(contract.ConditionScalingDown, metav1.ConditionFalse, contract.ReasonNotScalingDown, "")
	}
	message := fmt.Sprintf("Scaling down from %d to %d replicas", current, desired)
	if len(f.Kept) > 0 {
		message += " is blocked because:" + bullets(f.Kept)
	}
	return pass.Condition(contract.ConditionScalingDown, metav1.ConditionTrue, cmp.Or(f.KeptCause, contract.ReasonScalingDown), message+stale)
}

func (f statusFacts) ready() metav1.Condition {
	if len(f.Machines) == 0 {
		return pass.Condition(contract.ConditionMachinesReady, metav1.ConditionTrue, contract.ReasonNoReplicas, "")
	}
	return aggregation{
		contract.ConditionReady, contract.ConditionMachinesReady,
		contract.ReasonNotReady, contract.ReasonReadyUnknown, contract.ReasonReady,
	}.of(f.Machines)
}

func (f statusFacts) upToDate() (metav1.Condition, time.Duration) {
	var counted []*contract.MachineState
	again := time.Duration(0)
	for _, m := range f.Machines {
		age := f.Now.Sub(m.Created)
		if _, found := pass.Find(m.Conditions, contract.ConditionUpToDate); found || age > upToDateGrace {
			counted = append(counted, m)
			continue
		}
		again = pass.Soonest(again, upToDateGrace-age+time.Second)
	}
	if len(counted) == 0 {
		return pass.Condition(contract.ConditionMachinesUpToDate, metav1.ConditionTrue, contract.ReasonNoReplicas, ""), again
	}
	return aggregation{
		contract.ConditionUpToDate, contract.ConditionMachinesUpToDate,
		contract.ReasonNotUpToDate, ReasonUpToDateUnknown, contract.ReasonUpToDate,
	}.of(counted), again
}

// remediating reports the Machines that failed a health check. Only health checks request a remediation.
func (f statusFacts) remediating() metav1.Condition {
	var remediated []*contract.MachineState
	var unhealthy []string
	for _, m := range f.Machines {
		if !pass.HasStatus(m.Conditions, contract.ConditionHealthCheckSucceeded, metav1.ConditionFalse) {
			continue
		}
		unhealthy = append(unhealthy, m.Key.Name)
		if pass.HasStatus(m.Conditions, contract.ConditionOwnerRemediated, metav1.ConditionFalse) {
			remediated = append(remediated, m)
		}
	}
	if len(remediated) == 0 {
		message := ""
		if len(unhealthy) > 0 {
			message = machinesAre(unhealthy) + "not healthy (not to be remediated by MachineSet)"
		}
		return pass.Condition(contract.ConditionRemediating, metav1.ConditionFalse, contract.ReasonNotRemediating, message)
	}
	c := aggregation{source: contract.ConditionOwnerRemediated, target: contract.ConditionRemediating}.of(remediated)
	return pass.Condition(contract.ConditionRemediating, metav1.ConditionTrue, contract.ReasonRemediating, c.Message)
}

func (f statusFacts) deleting(stale string) metav1.Condition {
	if f.Set.Deleting.IsZero() {
		return pass.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, "")
	}
	message := "Deletion completed"
	switch n := len(f.Machines); {
	case n == 1:
		message = "Deleting 1 Machine" + bullets(f.Kept) + stale
	case n > 1:
		message = fmt.Sprintf("Deleting %d Machines", n) + bullets(f.Kept) + stale
	}
	return pass.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeleting, message)
}

// blockedBy are the messages of holds for the condition ScalingUp.
func blockedBy(holds []scale.Hold) []string {
	all := make([]string, 0, len(holds))
	for _, h := range holds {
		all = append(all, h.Message)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bullets lists lines below a head: the first three, and how many more there are.
func bullets(lines []string) string {
	var text strings.Builder
	for _, line := range lines[:min(len(lines), maxGroups)] {
		text.WriteString("\n* " + line)
	}
	if more := len(lines) - maxGroups; more > 0 {
		fmt.Fprintf(&text, "\n* And %d more", more)
	}
	return text.String()
}

// statusStep sets the status. It leaves alone what this pass has not read.
func statusStep(_ context.Context, s *Scope) (Result, error) {
	if s.Paused() || s.waiting || !s.counted {
		return Result{}, nil
	}
	facts := s.statusFacts()
	conditions, changes := facts.conditions()
	s.Assert(conditions...)
	c, counts := facts.count()
	u := &s.Update
	if s.trouble.selector == nil {
		u.SelectorText = contract.SetTo(facts.Selector)
	}
	u.ObservedReplicas, u.ReadyReplicas = contract.SetTo(c.Replicas), contract.SetTo(c.Ready)
	u.AvailableReplicas, u.UpToDateReplicas = contract.SetTo(c.Available), contract.SetTo(c.UpToDate)
	u.NodeReadyReplicas, u.NodeAvailableReplicas = contract.SetTo(c.NodeReady), contract.SetTo(c.NodeAvailable)
	u.FullyLabeledReplicas = contract.SetTo(c.FullyLabeled)
	return Result{RequeueAfter: pass.Soonest(changes, counts)}, nil
}

// statusFacts are what this pass has found out.
func (s *Scope) statusFacts() statusFacts {
	machines, _ := s.Machines()
	facts := statusFacts{Set: &s.State, Machines: machines, TemplateLabels: machineLabels(&s.State), Now: s.Now}
	if s.selector != nil && s.trouble.selector == nil {
		facts.Selector = s.selector.String()
	}
	facts.Missing, facts.Blocked = s.missing()
	facts.Unclaimed = texts(s.trouble.claim)
	if s.trouble.selector != nil {
		facts.Unclaimed = append(facts.Unclaimed, s.trouble.selector.Error())
	}
	if facts.Kept = texts(s.trouble.deletion); len(facts.Kept) > 0 {
		facts.KeptCause = ReasonMachineDeletionFailed
	}
	if s.decision.Surplus > 0 && len(s.decision.Held) > 0 {
		facts.Kept, facts.KeptCause = append(blockedBy(s.decision.Held), facts.Kept...), s.decision.Held[0].Reason
	}
	for _, reason := range []string{ReasonMachinesNotShown, ReasonMachinesNotRestored} {
		if s.held(reason) {
			facts.Cause = reason
		}
	}
	return facts
}

// texts are the texts of errors, each of them short enough to leave room for others.
func texts(errs []error) []string {
	all := make([]string, 0, len(errs))
	for _, err := range errs {
		all = append(all, pass.Bounded(err.Error(), pass.MaxNoteLength))
	}
	return all
}
