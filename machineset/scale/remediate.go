package scale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// LimitsAnnotation of a set contains its RemediationLimits. Its deployment writes it.
const LimitsAnnotation = "machinist.dev/remediation"

// RemediationLimits are a deployment's limits for the replacements of one of its sets.
type RemediationLimits struct {
	// Outdated: the set does not have the template of the deployment, whose rollout removes its Machines. Nothing is replaced.
	Outdated bool `json:"outdated,omitempty"`
	// Elsewhere: another set of the deployment creates the replacements for the Machines of this set, which may not create any.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// MaxInFlight is the maximum number of simultaneous remediations; nil is no limit.
	MaxInFlight *int `json:"maxInFlight,omitempty"`
	// MaxUnavailable is how many available Machines may be missing because of remediations. A deployment allows none during a rollout, which
	// deletes others.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
}

// String returns the value of LimitsAnnotation. Equal limits give equal texts.
func (l RemediationLimits) String() string { return textOf(l) }

// LimitsOf returns the limits of a set. controlled: another object controls the set. If such a set has no limits, because the owner is not
// a deployment of this module or has not written them yet, the owner's other actions are unknown: the limits are one Machine at a time, and
// none that is available. A text that String does not return is an error, because limits could be lost.
func LimitsOf(set *contract.Metadata, controlled bool) (l RemediationLimits, err error) {
	text, found := set.Annotations[LimitsAnnotation]
	switch {
	case !controlled:
		return RemediationLimits{}, nil
	case !found:
		return RemediationLimits{MaxInFlight: new(1)}, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&l); err != nil {
		return RemediationLimits{}, fmt.Errorf("limits of remediation %q: %w", text, err)
	}
	return l, nil
}

// RemediationFacts are the inputs of Remediate. They are not changed.
type RemediationFacts struct {
	// Machines are all Machines of the owner, including those that are being deleted.
	Machines []Machine
	// Next is the first slot in the owner's ledger that was never reserved: a Machine that is created later has that slot or a higher one.
	Next int64
	// Replacements are the stored ones, see Ledger.
	Replacements Replacements
	// Limits are the limits of the owner.
	Limits RemediationLimits
	// MinAvailable is the number of available Machines that must stay; absent is no limit. A marked Machine counts while it is available.
	MinAvailable contract.Opt[int]
	// Holds are the reasons why the owner replaces nothing, as messages for a person.
	Holds []string
	Now   time.Time
}

// deferral is the new condition OwnerRemediated of a Machine that is not replaced now.
type deferral struct {
	Victim
	// Reason is contract.ReasonCannotBeRemediated or contract.ReasonRemediationDeferred. Message has the cause and, if known, its end; the
	// same facts give the same text at a later time. Empty for a Machine that is no longer marked: the condition must be removed.
	Reason, Message string
}

// Remediation is the decision about marked Machines.
type Remediation struct {
	// Delete are the Machines to delete, in order. Store Replacements before the first of them is deleted.
	Delete []Victim
	// Deferred are the Machines that wait or have recovered, by name.
	Deferred []deferral
	// Replacements must be stored.
	Replacements Replacements
	// Wake is when time alone changes the decision, zero for never.
	Wake time.Time
}

// remediation is a decision in the making.
type remediation struct {
	RemediationFacts
	out    Remediation
	record Replacements // recorded before, and not over
	begins []*Machine   // Machines whose replacement must be recorded
	// deleting counts Machines in deletion, or deleted by this decision. inFlight also counts those whose deletion was recorded or reported,
	// and available excludes those.
	deleting, inFlight, available int
}

// Remediate decides which of the marked Machines are deleted now, so that their owner creates others. It is pure, and equal facts give
// equal decisions, whatever their order. Machines whose deletion was recorded before come first, then those with
// contract.RemediateAnnotation, then the newest ones, then those with the lower name. Rule: Cluster API's MachineSet,
// reconcileUnhealthyMachines; the back-off is an addition.
//
// Including Machines in deletion, it never deletes more than Limits.MaxInFlight. It deletes no available Machine when fewer than
// MinAvailable would stay, no paused one, and no replacement before the back-off of the set is over.
func Remediate(f RemediationFacts) Remediation {
	r := &remediation{RemediationFacts: f}
	r.readRecord()
	var marked []*Machine
	for i := range f.Machines {
		m := &f.Machines[i]
		switch begun := r.begun(m); {
		case m.Deleting && (begun || m.Ailing):
			r.deleting++
			r.inFlight++
		case m.Deleting:
		case begun && m.Ailing && !m.Paused:
			r.inFlight++
		case m.Available:
			r.available++
		}
		switch {
		case m.Deleting:
		case m.Ailing:
			marked = append(marked, m)
		case m.recovered:
			r.out.Deferred = append(r.out.Deferred, deferral{Victim: Victim{m.Name, m.UID}})
		}
	}
	slices.SortFunc(marked, r.compare)
	for _, m := range marked {
		r.decide(m)
	}
	slices.SortFunc(r.out.Deferred, func(a, b deferral) int { return cmp.Compare(a.Name, b.Name) })
	r.finish()
	return r.out
}

// begun reports whether the deletion of a Machine was recorded, or reported in its condition.
func (r *remediation) begun(m *Machine) bool {
	return m.remediating || slices.Contains(r.record.Names, m.Name)
}

func (r *remediation) compare(a, b *Machine) int {
	return cmp.Or(TrueFirst(r.begun(a), r.begun(b)), TrueFirst(a.remediateFirst, b.remediateFirst),
		b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
}

// decide decides about one marked Machine.
func (r *remediation) decide(m *Machine) {
	begun := r.begun(m)
	var message string
	reason := contract.ReasonRemediationDeferred
	switch {
	case r.Limits.Outdated:
		reason, message = contract.ReasonCannotBeRemediated, "Machine won't be remediated because it is pending removal due to rollout"
	case m.Paused:
		message = "Waiting because the Machine is paused"
	case len(r.Holds) > 0:
		message = "Waiting because the Machine would not be replaced:\n* " + strings.Join(slices.Sorted(slices.Values(r.Holds)), "\n* ")
	case begun:
		message = r.exceeded(m, r.deleting, r.available)
	default:
		if message = r.early(m); message == "" {
			message = r.exceeded(m, r.inFlight, r.available-1)
		}
	}
	if message != "" {
		r.out.Deferred = append(r.out.Deferred, deferral{Victim{m.Name, m.UID}, reason, message})
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
	r.begins = append(r.begins, m)
}

// exceeded describes the limit that the deletion of a Machine would exceed, given the numbers of Machines going and available.
func (r *remediation) exceeded(m *Machine, going, available int) string {
	if limit := r.Limits.MaxInFlight; limit != nil && going >= *limit {
		return fmt.Sprintf("Waiting because there are already too many remediations in progress (maxInFlight is %d)", *limit)
	}
	if going >= maxReplacing {
		return fmt.Sprintf("Waiting because %d other Machines are being replaced", going)
	}
	if least, limited := r.MinAvailable.Get(); limited && m.Available && available < least {
		return fmt.Sprintf("Waiting because it counts as available, and at least %d available Machines must stay", max(least, 0))
	}
	return ""
}

// early describes why a replacement is not replaced yet, empty when it may be. A recorded time in the future is from a wrong clock.
func (r *remediation) early(m *Machine) string {
	until := r.record.last().Add(min(backOff<<min(max(r.record.Count-1, 0), 20), maxBackOff))
	if !r.isNew(m) || !until.After(r.Now) || contract.IsAhead(r.record.last(), r.Now) {
		return ""
	}
	r.wake(until)
	return fmt.Sprintf("Waiting until %s: Machines of the set were replaced %d times without a new one that stayed healthy",
		until.UTC().Format(time.RFC3339), r.record.Count)
}

func (r *remediation) wake(at time.Time) {
	if at.After(r.Now) && (r.out.Wake.IsZero() || at.Before(r.out.Wake)) {
		r.out.Wake = at
	}
}
