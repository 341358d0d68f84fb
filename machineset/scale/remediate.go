package scale

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// RemediateAnnotation asks, with any value, for a Machine to be remediated before others. Rule: Cluster API's MachineHealthCheck, which
// takes it for a failed check.
const RemediateAnnotation = "cluster.x-k8s.io/remediate-machine"

// RemediationFacts are what the replacement of Machines depends on that a health check has marked. They are not changed.
type RemediationFacts struct {
	// Machines are all Machines of the owner, those in deletion included.
	Machines []Machine
	// Next is the first slot of the owner's ledger that was never taken: a Machine that is created later has that one, or a higher one.
	Next int64
	// Lines are the stored ones, see ParseLines.
	Lines []Line
	// Limits are those of the owner.
	Limits RemediationLimits
	// MinAvailable is how many available Machines must stay; absent is no limit. A Machine that a health check has marked counts while it is
	// available.
	MinAvailable contract.Opt[int]
	// Holds keep the owner from replacing anything.
	Holds []Hold
	Now   time.Time
	RemediationPolicy
}

// Deferral says of a marked Machine why it is not replaced now.
type Deferral struct {
	Victim
	// Reason is contract.ReasonCannotBeRemediated or contract.ReasonRemediationDeferred, and Message says why, and until when where that is
	// known. The same facts give the same text at a later time.
	Reason, Message string
}

// Remediation is what is done about marked Machines.
type Remediation struct {
	// Delete are the Machines to delete, in order. Store Lines before the first of them is deleted.
	Delete []Victim
	// Deferred are those that wait, and Recovered those that are no longer marked and whose condition OwnerRemediated is to be removed, both
	// by name.
	Deferred  []Deferral
	Recovered []Victim
	Lines     []Line
	// Wake is when time alone changes the decision, zero for never.
	Wake time.Time
}

// remediation is a decision in the making.
type remediation struct {
	RemediationFacts
	out       Remediation
	lines     map[string]*Line // those of Machines that stand for them, by name
	requested map[string]bool  // Machines whose deletion was recorded
	// deleting are in deletion, or are deleted by this decision. inFlight also counts those whose deletion was recorded, or said, and
	// available leaves those out.
	deleting, inFlight, available int
}

// Remediate decides which of the Machines that a health check has marked are deleted now, so that their owner creates others. It is pure,
// and equal facts give equal decisions, whatever their order. Machines whose deletion was recorded before come first, then those with
// RemediateAnnotation, then the newest ones, then those with the lower name. Rule: Cluster API's MachineSet, reconcileUnhealthyMachines;
// the back-off and the limit of replacements are additions.
//
// Together with those that are being deleted it never deletes more than Limits.MaxInFlight; it deletes no available Machine when fewer than
// MinAvailable would stay, no Machine of a line before its back-off is over, and none of a line that was replaced as often as
// RemediationPolicy allows.
func Remediate(f RemediationFacts) Remediation {
	r := &remediation{RemediationFacts: f, requested: map[string]bool{}, lines: map[string]*Line{}}
	r.readLines()
	var marked []*Machine
	for i := range f.Machines {
		m := &f.Machines[i]
		switch begun := r.begun(m); {
		case m.Deleting && (begun || m.Ailing):
			r.deleting++
			r.inFlight++
		case m.Deleting:
		case begun && m.Ailing:
			r.inFlight++
		case m.Available:
			r.available++
		}
		switch {
		case m.Deleting:
		case m.Ailing:
			marked = append(marked, m)
		case m.Recovered:
			r.out.Recovered = append(r.out.Recovered, Victim{m.Name, m.UID})
		}
	}
	slices.SortFunc(marked, r.compare)
	for _, m := range marked {
		r.decide(m)
	}
	slices.SortFunc(r.out.Deferred, func(a, b Deferral) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.out.Recovered, func(a, b Victim) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.out.Lines, Line.compare)
	return r.out
}

// begun reports whether the deletion of a Machine was recorded, or said in its condition.
func (r *remediation) begun(m *Machine) bool { return r.requested[m.Name] || m.Remediating }

func (r *remediation) compare(a, b *Machine) int {
	return cmp.Or(TrueFirst(r.begun(a), r.begun(b)), TrueFirst(a.RemediateFirst, b.RemediateFirst),
		b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
}

// decide decides about one marked Machine.
func (r *remediation) decide(m *Machine) {
	line, begun := r.lines[m.Name], r.begun(m)
	reason, message := contract.ReasonRemediationDeferred, r.held()
	switch {
	case r.Limits.Outdated:
		reason, message = contract.ReasonCannotBeRemediated, "Machine won't be remediated because it is pending removal due to rollout"
	case message != "":
	case begun:
		message = r.exceeded(m, r.deleting, r.available)
	default:
		if message = r.early(line); message == "" {
			message = r.exceeded(m, r.inFlight, r.available-1)
		}
	}
	if message != "" {
		r.out.Deferred = append(r.out.Deferred, Deferral{Victim{m.Name, m.UID}, reason, message})
		return
	}
	r.out.Delete = append(r.out.Delete, Victim{m.Name, m.UID})
	if r.deleting++; begun {
		return
	}
	r.inFlight++
	if m.Available {
		r.available--
	}
	replaced := Line{Of: m.Name, From: r.Next, Count: 1, Last: r.Now.Truncate(time.Second)}
	if line != nil {
		replaced.Count += line.Count
		r.drop(*line)
	}
	r.out.Lines = append(r.out.Lines, replaced)
}

// exceeded says which limit the deletion of a Machine would exceed while so many others go, and so many others are available.
func (r *remediation) exceeded(m *Machine, going, available int) string {
	if limit, limited := r.Limits.MaxInFlight.Get(); limited && going >= limit {
		return fmt.Sprintf("Waiting because there are already too many remediations in progress (maxInFlight is %d)", limit)
	}
	if least, limited := r.MinAvailable.Get(); limited && m.Available && available < least {
		return fmt.Sprintf("Waiting because it counts as available, and at least %d available Machines must stay", max(least, 0))
	}
	return ""
}

// held says what keeps the owner from replacing anything, empty for nothing.
func (r *remediation) held() string {
	if len(r.Holds) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("Waiting because the Machine would not be replaced:")
	for _, h := range sortedHolds(r.Holds) {
		text.WriteString("\n* " + h.Message)
	}
	return text.String()
}

// early says why a line is not replaced again yet, empty when it may be. A time that is
// ahead was written by a clock that was wrong.
func (r *remediation) early(line *Line) string {
	if line == nil {
		return ""
	}
	wait, why := r.backOff(line.Count), "back-off"
	if most := r.maxReplacements(); most > 0 && line.Count >= most {
		wait, why = r.window(), "limit"
	}
	until := line.Last.Add(wait)
	if !until.After(r.Now) || contract.IsAhead(line.Last, r.Now) {
		return ""
	}
	r.wake(until)
	return fmt.Sprintf("Waiting until %s: the Machines in its place were replaced %s without one that stayed healthy (%s)",
		until.UTC().Format(time.RFC3339), times(line.Count), why)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (r *remediation) wake(at time.Time) {
	if at.After(r.Now) && (r.out.Wake.IsZero() || at.Before(r.out.Wake)) {
		r.out.Wake = at
	}
}
