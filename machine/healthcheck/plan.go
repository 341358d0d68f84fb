package healthcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// Machine is a Machine of a check as input of Plan.
type Machine struct {
	Name    string
	UID     types.UID
	Created time.Time
	// Group identifies what replaces the Machine: the deployment of its owner, or the owner. It is empty without an owner.
	Group string
	// Domain is the failure domain, empty when unknown.
	Domain  string
	Verdict Verdict
	// Marked: its remediation was requested, by a condition or an object, and has not ended. Failed: it was unhealthy in its last result.
	Marked, Failed bool
	Deleting       bool
}

// Shared is a Machine that an older check judges; By is the name of that check. It does not count. When the older check is gone, the
// Machine takes no place that was recorded while that check existed.
type Shared struct {
	By      string
	Created time.Time
}

// PlanFacts are the inputs of Plan. They are neither changed nor kept.
type PlanFacts struct {
	// Machines are all that the check selects, in any order, without the Shared ones, which older checks judge too.
	Machines []Machine
	Shared   []Shared
	// MaxUnhealthy and UnhealthyRange are the limits of the check: a number or a percentage such as 40%, and a range such as [3-5], both ends
	// included, which takes precedence. Absent and empty mean none. While they are invalid, nothing is remediated.
	MaxUnhealthy   contract.Opt[intstr.IntOrString]
	UnhealthyRange string
	// Ledger is the ledger of the check; Known reports whether there is one.
	Ledger Ledger
	Known  bool
	// External: an object made from a template remediates, so no owner is needed.
	External bool
	Now      time.Time
}

// Action is what happens to a Machine.
type Action string

// Values of Action.
const (
	// ActionNone: nothing happens.
	ActionNone Action = ""
	// ActionMark: the remediation is requested.
	ActionMark Action = "Mark"
	// ActionWait: the remediation was requested before.
	ActionWait Action = "Wait"
	// ActionHold: the Machine is unhealthy, and is not remediated.
	ActionHold Action = "Hold"
	// ActionUnmark: the Machine is healthy again, and the request is withdrawn.
	ActionUnmark Action = "Unmark"
)

// Reasons of the condition RemediationAllowed and of ActionHold. The first two are Cluster API's.
const (
	ReasonRemediationAllowed = "RemediationAllowed" // unhealthy Machines are remediated
	ReasonTooManyUnhealthy   = "TooManyUnhealthy"   // more Machines are unhealthy than the limit of the check allows
	// ReasonLimitUnreadable: the limit of the check is invalid.
	ReasonLimitUnreadable = "LimitUnreadable"
	// ReasonOutage: many Machines became unhealthy at once, and new Machines would not fix that.
	ReasonOutage = "Outage"
	// ReasonInFlight: the maximum number of Machines is being remediated.
	ReasonInFlight = "RemediationInFlight"
	// ReasonNoOwner: no controller owns the Machine, so nothing would replace it.
	ReasonNoOwner = "NoOwner"
)

// Outcome is what happens to one Machine, and why.
type Outcome struct {
	Name   string
	Action Action
	// Reason and Message are why a Machine is held.
	Reason, Message string
}

// Decision is the result of Plan.
type Decision struct {
	// Expected counts the Machines without skipped ones; Healthy and Unhealthy count those that are not pending.
	Expected, Healthy, Unhealthy int
	// Allowed, Reason and Message are the condition RemediationAllowed; Remaining is how many more Machines may become unhealthy.
	Allowed         bool
	Remaining       int
	Reason, Message string
	// Outcomes are the outcomes of the expected Machines, sorted by name.
	Outcomes []Outcome
	// Ledger must be stored before a Machine is marked.
	Ledger Ledger
	// NextCheck is the time after which the decision changes without an event; zero when it does not.
	NextCheck time.Duration
}

// Plan decides which Machines of a check are remediated. It accepts all inputs and is deterministic, whatever the order of the Machines.
// Over all calls, never more Machines are in remediation, or gone without a healthy replacement, than the limit allows: the Ledger records
// them, and must be stored before its decision is carried out.
func Plan(f PlanFacts) Decision {
	p := &plan{PlanFacts: f}
	for i := range f.Machines {
		m := &f.Machines[i]
		p.newest = later(p.newest, m.Created)
		switch {
		case !m.Verdict.Skipped:
			p.machines = append(p.machines, m)
		case !m.Marked && !m.Deleting: // its remediation is withdrawn; the owner of a marked one replaces it nevertheless
			p.Ledger.InFlight = slices.DeleteFunc(slices.Clone(p.Ledger.InFlight), func(e Entry) bool {
				return e.Machine == m.UID && e.Decided
			})
		}
	}
	for _, m := range f.Shared {
		p.newest = later(p.newest, m.Created)
	}
	slices.SortFunc(p.machines, func(a, b *Machine) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	p.settle()
	p.count()
	p.allow()
	p.remember()
	p.outcomes()
	p.summarize()
	slices.SortFunc(p.out.Ledger.InFlight, inTime) // the next pass, which sorts its input, writes nothing
	return p.out
}

type plan struct {
	PlanFacts

	machines []*Machine // sorted
	newest   time.Time  // when the newest Machine was made
	outages  []outage   // those that last come first
	out      Decision
	bad      int // Machines that count as unhealthy for the limit
	missing  int // Machines of these that are gone or not judged: they count in the total, too
}

// count counts the Machines for the limit. It adds missing entries to the ledger: a Machine that was marked by another program, or by a
// pass whose ledger is lost; and without a ledger each Machine that has not started, because it may be a replacement.
func (p *plan) count() {
	p.out.Expected = len(p.machines)
	for _, m := range p.machines {
		v, class := &m.Verdict, m.counts()
		switch class {
		case Healthy:
			p.out.Healthy++
		case Unhealthy:
			p.out.Unhealthy++
		case Pending:
		}
		if starts := v.Class == Pending && v.Unstarted && !m.Deleting; v.Class != Healthy && m.Marked || !p.Known && starts {
			p.record(m, m.Marked)
		}
		if p.isBad(m, class) {
			p.bad++
		}
	}
	for _, e := range p.out.Ledger.InFlight {
		if e.Gone != 0 { // its future replacement counts too
			p.bad++
			p.missing++
		}
	}
}

// isBad reports whether a Machine counts as unhealthy for the limit.
func (p *plan) isBad(m *Machine, class Class) bool {
	return class == Unhealthy || m.Verdict.Suspect || p.out.Ledger.entry(m.UID) >= 0
}

// counts returns the class with which the Machine counts. A Machine that cannot be judged counts with its last result, and without one as
// healthy, as in Cluster API.
func (m *Machine) counts() Class {
	switch {
	case m.Verdict.Unjudged && m.Failed:
		return Unhealthy
	case m.Verdict.Unjudged:
		return Healthy
	}
	return m.Verdict.Class
}

// allow applies the limit.
func (p *plan) allow() {
	p.out.Reason = ReasonRemediationAllowed
	limit, err := parseLimit(p.MaxUnhealthy, p.UnhealthyRange)
	if err != nil {
		p.out.Reason, p.out.Message = ReasonLimitUnreadable, err.Error()+": nothing is remediated"
		return
	}
	total := p.out.Expected + p.missing
	if p.out.Allowed, p.out.Remaining = limit.allows(total, p.bad); !p.out.Allowed {
		p.out.Reason, p.out.Message = ReasonTooManyUnhealthy, limit.refusal(total, p.bad)
		if p.missing > 0 {
			p.out.Message += fmt.Sprintf("; %d of them are gone or not judged by this check, and nothing has taken their place yet", p.missing)
		}
	}
}

// outcomes decides about each Machine, and marks as many as the ledger can contain. A replacement is not a further Machine.
func (p *plan) outcomes() {
	for _, m := range p.machines {
		o := Outcome{Name: m.Name}
		switch {
		case m.Verdict.Class == Healthy && m.Marked && !m.Deleting:
			o.Action = ActionUnmark
		case m.Verdict.Class != Unhealthy:
		case m.Marked || m.Deleting:
			o.Action = ActionWait
		default:
			o.Reason, o.Message = p.holds(m)
			if o.Action = ActionHold; o.Reason == "" {
				o.Action = ActionMark
				p.record(m, true)
			}
		}
		p.out.Outcomes = append(p.out.Outcomes, o)
	}
}

// holds returns why an unhealthy Machine is not remediated; empty when it may be.
func (p *plan) holds(m *Machine) (reason, message string) {
	if m.Group == "" && !p.External {
		return ReasonNoOwner, "No controller owns the Machine, so nothing replaces it: delete it, or repair it"
	}
	if !p.out.Allowed {
		return p.out.Reason, p.out.Message
	}
	if p.out.Ledger.entry(m.UID) < 0 && len(p.out.Ledger.InFlight) >= maxEntries {
		return ReasonInFlight, fmt.Sprintf("%d Machines are being remediated or replaced, the most at a time", maxEntries)
	}
	if m.Verdict.Reason == ReasonHasRemediateAnnotation {
		return "", ""
	}
	for _, o := range p.outages {
		if message, left := o.holds(m, p.Now); message != "" {
			p.next(left)
			return ReasonOutage, message
		}
	}
	return "", ""
}

// summarize completes the condition RemediationAllowed, and computes the next check.
func (p *plan) summarize() {
	unjudged, why := 0, ""
	for _, m := range p.machines {
		p.next(m.Verdict.NextCheck)
		if m.Verdict.Unjudged {
			unjudged, why = unjudged+1, cmp.Or(why, m.Verdict.Reason)
		}
	}
	if !p.out.Allowed {
		return
	}
	switch {
	case len(p.Shared) > 0:
		first := slices.MinFunc(p.Shared, func(a, b Shared) int { return cmp.Compare(a.By, b.By) })
		p.out.Message = fmt.Sprintf("%d Machines that the check selects too are judged by older ones, such as %s", len(p.Shared), first.By)
	case unjudged > 0:
		p.out.Message = fmt.Sprintf("%d of %d Machines are not judged now, and count as before: %s", unjudged, p.out.Expected, why)
	}
	held, acts := "", false
	for _, o := range p.out.Outcomes {
		acts = acts || o.Action == ActionMark || o.Action == ActionWait
		if o.Action == ActionHold && o.Reason == ReasonOutage {
			held = o.Message
		}
	}
	if held != "" {
		p.out.Message, p.out.Remaining = held, 0
		if !acts {
			p.out.Allowed, p.out.Reason = false, ReasonOutage
		}
	}
}

func (p *plan) next(after time.Duration) {
	if after > 0 && (p.out.NextCheck == 0 || after < p.out.NextCheck) {
		p.out.NextCheck = after
	}
}
