package healthcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Machine is a Machine of a check as Plan sees it.
type Machine struct {
	Name    string
	UID     types.UID
	Created time.Time
	// Line is the UID of the owner that makes Machines from one template, and Group names who replaces the Machine: the deployment of that
	// owner, or the owner. Both are empty without an owner.
	Line  types.UID
	Group string
	// Domain is the failure domain, empty when unknown.
	Domain  string
	Verdict Verdict
	// Marked: its remediation was requested, by a condition or an object, and has not ended. Failed: it was unhealthy when it was judged last.
	Marked, Failed bool
	Deleting       bool
	// DeletingSince is when its deletion was requested, zero when unknown.
	DeletingSince time.Time
	// Shared names an older check that judges the Machine too, and keeps this one from doing so. Empty: none.
	Shared string
}

// PlanFacts are the inputs of Plan. They are read, never changed or kept.
type PlanFacts struct {
	// Machines are all that the check selects, in any order.
	Machines []Machine
	Limit    Limit
	// LimitErr says why the limit is unknown; then nothing is remediated.
	LimitErr error
	Policy   Policy
	// Ledger is that of the check, and Known says that there is one.
	Ledger Ledger
	Known  bool
	// External: an object made from a template remediates, which needs no owner.
	External bool
	Now      time.Time
}

// Action is what happens to a Machine.
type Action string

// Values of Action.
const (
	// ActionNone: nothing.
	ActionNone Action = ""
	// ActionMark: its remediation is requested.
	ActionMark Action = "Mark"
	// ActionWait: its remediation was requested before.
	ActionWait Action = "Wait"
	// ActionHold: it is unhealthy, and stays.
	ActionHold Action = "Hold"
	// ActionUnmark: it is healthy again, and the request is withdrawn.
	ActionUnmark Action = "Unmark"
)

// Reasons of the condition RemediationAllowed and of ActionHold. The first two are Cluster API's.
const (
	ReasonRemediationAllowed = "RemediationAllowed" // unhealthy Machines are remediated
	ReasonTooManyUnhealthy   = "TooManyUnhealthy"   // more Machines are unhealthy than the limit of the check allows
	// ReasonLimitUnreadable: the limit of the check cannot be read.
	ReasonLimitUnreadable = "LimitUnreadable"
	// ReasonOutage: many Machines became unhealthy at once, and new ones would not end that.
	ReasonOutage = "Outage"
	// ReasonInFlight: as many Machines as allowed are being remediated.
	ReasonInFlight = "RemediationInFlight"
	// ReasonBackoff and ReasonTooManyFailures: the owner's Machines do not start.
	ReasonBackoff         = "Backoff"
	ReasonTooManyFailures = "TooManyFailures"
	// ReasonNoOwner: no controller owns the Machine, so that nothing would replace it.
	ReasonNoOwner = "NoOwner"
)

// Outcome is what happens to one Machine, and why.
type Outcome struct {
	Name   string
	Action Action
	// Reason and Message say why a Machine is held.
	Reason, Message string
}

// Decision is the result of Plan.
type Decision struct {
	// Expected counts the Machines, Healthy, Unhealthy and Pending those of each class, without the ones that are skipped or shared. InFlight
	// counts the remediations that have not ended, those of Machines that are gone included.
	Expected, Healthy, Unhealthy, Pending, InFlight int
	// Targets are the sorted names of the expected Machines.
	Targets []string
	// Allowed, Reason and Message are the condition RemediationAllowed, and Remaining is how many more may become unhealthy.
	Allowed         bool
	Remaining       int
	Reason, Message string
	Outages         []Outage
	// Outcomes are those of the expected Machines, sorted by name.
	Outcomes []Outcome
	// Ledger is to be stored before a Machine is marked.
	Ledger Ledger
	// NextCheck is after which time the decision changes without an event; zero when it does not.
	NextCheck time.Duration
}

// Plan decides which Machines of a check are remediated. It is total and deterministic, whatever the order of the Machines. However often
// it is asked, never more Machines are in remediation, or gone without a healthy replacement, than the limit and Policy.MaxInFlight allow:
// the Ledger remembers them, and is to be stored before its decision is carried out.
func Plan(f PlanFacts) Decision { return planWithin(f, f.Policy.bounds()) }

func planWithin(f PlanFacts, b bounds) Decision {
	p := &plan{PlanFacts: f, bounds: b, at: recordedAt(f)}
	for _, m := range f.Machines {
		switch {
		case !m.Verdict.Skipped && m.Shared == "":
			p.machines = append(p.machines, m)
		case m.Verdict.Skipped && !m.Marked && !m.Deleting: // its remediation, if there was one, is withdrawn
			p.Ledger.InFlight = slices.DeleteFunc(slices.Clone(p.Ledger.InFlight), func(e Entry) bool {
				return e.Machine == m.UID && e.Decided
			})
		case m.Verdict.Skipped:
			p.leaving = append(p.leaving, m)
		}
	}
	slices.SortFunc(p.machines, func(a, b Machine) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	p.count()
	p.allow()
	p.remember()
	p.outcomes()
	p.choose()
	p.say()
	slices.SortFunc(p.out.Ledger.InFlight, inTime) // the next pass, which sorts what it reads, writes nothing
	return p.out
}

type plan struct {
	PlanFacts

	bounds   bounds
	machines []Machine // sorted
	at       moment    // of what the ledger records
	leaving  []Machine // that are skipped, and whose owner replaces them all the same
	out      Decision
	bad      int // Machines that count as unhealthy for the limit
	missing  int // those of them that are gone: they count for the total, too
}

// count counts the Machines, and what the limit compares.
func (p *plan) count() {
	p.Ledger = p.Ledger.notAfter(p.Now, p.Machines)
	p.out.Ledger = p.Ledger.settle(p.machines, p.leaving, p.Machines, p.Now, p.bounds.expiry)
	present := map[types.UID]bool{}
	for i := range p.machines {
		m := &p.machines[i]
		present[m.UID] = true
		p.out.Expected++
		p.out.Targets = append(p.out.Targets, m.Name)
		class := m.counts()
		switch class {
		case Healthy:
			p.out.Healthy++
		case Unhealthy:
			p.out.Unhealthy++
		case Pending:
			p.out.Pending++
		}
		p.enter(m)
		if p.Policy.LimitAlone && class != Healthy {
			p.bad++
		} else if !p.Policy.LimitAlone && (class == Unhealthy || m.Verdict.Suspect || p.out.Ledger.entry(m.UID) >= 0) {
			p.bad++
		}
	}
	p.out.InFlight = len(p.out.Ledger.InFlight)
	for _, e := range p.out.Ledger.InFlight {
		if !p.Policy.LimitAlone && !present[e.Machine] { // what will replace it counts too
			p.bad++
			p.missing++
		}
	}
}

// counts returns the class as which the Machine counts. One of which nothing can be known counts as it was judged last, and one that never
// was as healthy, as in Cluster API.
func (m *Machine) counts() Class {
	switch {
	case m.Verdict.Unjudged && m.Failed:
		return Unhealthy
	case m.Verdict.Unjudged:
		return Healthy
	}
	return m.Verdict.Class
}

// enter adds to the ledger what it does not know: a Machine that an earlier pass whose ledger is lost, or another program, has marked; and
// without a ledger each Machine that has not started, because it may replace one.
func (p *plan) enter(m *Machine) {
	switch {
	case m.Verdict.Class == Healthy:
	case m.Marked:
		p.out.Ledger.add(m, p.at, true)
	case !p.Known && !p.Policy.LimitAlone && m.Verdict.Class == Pending && m.Verdict.Unstarted && !m.Deleting:
		p.out.Ledger.add(m, p.at, false)
	}
}

// allow applies the limit, and finds outages.
func (p *plan) allow() {
	p.out.Reason = ReasonRemediationAllowed
	if p.LimitErr != nil {
		p.out.Reason, p.out.Message = ReasonLimitUnreadable, p.LimitErr.Error()+": nothing is remediated"
		return
	}
	total := p.out.Expected + p.missing
	if p.out.Allowed, p.out.Remaining = p.Limit.allows(total, p.bad); !p.out.Allowed {
		p.out.Reason, p.out.Message = ReasonTooManyUnhealthy, p.Limit.refusal(total, p.bad)
	}
	p.out.Outages = outages(p.machines, p.bounds.outageWindow, p.Now)
}

// outcomes decides about each Machine alone.
func (p *plan) outcomes() {
	for i := range p.machines {
		m := &p.machines[i]
		o := Outcome{Name: m.Name}
		switch {
		case m.Verdict.Class == Healthy && m.Marked && !m.Deleting:
			o.Action = ActionUnmark
		case m.Verdict.Class != Unhealthy:
		case m.Marked || m.Deleting:
			o.Action = ActionWait
		default:
			o.Action = ActionMark
			if reason, message := p.holds(m); reason != "" {
				o.Action, o.Reason, o.Message = ActionHold, reason, message
			}
		}
		p.out.Outcomes = append(p.out.Outcomes, o)
	}
}

// holds says why an unhealthy Machine is not remediated, whatever happens to others; nothing when it may be.
func (p *plan) holds(m *Machine) (reason, message string) {
	if m.Line == "" && !p.External {
		return ReasonNoOwner, "No controller owns the Machine, so nothing replaces it: delete it, or repair it"
	}
	if !p.out.Allowed {
		return p.out.Reason, p.out.Message
	}
	if m.Verdict.Reason == ReasonHasRemediateAnnotation {
		return "", ""
	}
	for _, o := range p.out.Outages {
		if o.machines[m.Name] {
			return ReasonOutage, fmt.Sprintf("%s, which new Machines would not end: add the annotation %s to remediate it nevertheless",
				o, RemediateAnnotation)
		}
	}
	for _, e := range p.out.Ledger.Outages {
		if left := e.left(m, p.Now); left > 0 {
			p.next(left)
			return ReasonOutage, e.recovering(m)
		}
	}
	line, failed := p.out.Ledger.line(m.Line)
	if !failed || m.Line == "" || p.out.Ledger.decided(m.UID) { // it could not be marked
		return "", ""
	}
	if p.bounds.maxFailures >= 0 && line.Failures >= p.bounds.maxFailures {
		return ReasonTooManyFailures, fmt.Sprintf("Machines of this owner did not start %d times in a row: change its template, or add the "+
			"annotation %s", line.Failures, RemediateAnnotation)
	}
	delay := p.bounds.delay(line.Failures)
	if left := min(time.Unix(line.Last, 0).Add(delay).Sub(p.Now), delay); left > 0 {
		p.next(left)
		return ReasonBackoff, fmt.Sprintf("Machines of this owner did not start: the next one is remediated %s after the last", delay)
	}
	return "", ""
}

// choose marks as many Machines as may be in remediation at a time: first those that a person requested, then those that are unhealthy for
// longest. A Machine that was made for another one is no further one.
func (p *plan) choose() {
	var marked []int
	for i := range p.out.Outcomes {
		if p.out.Outcomes[i].Action == ActionMark && !p.out.Ledger.decided(p.machines[i].UID) {
			marked = append(marked, i)
		}
	}
	slices.SortStableFunc(marked, func(a, b int) int {
		x, y := &p.machines[a].Verdict, &p.machines[b].Verdict
		return cmp.Or(requested(x)-requested(y), x.Since.Compare(y.Since))
	})
	most := p.Policy.inFlight(p.out.Expected)
	for _, i := range marked {
		m, o := &p.machines[i], &p.out.Outcomes[i]
		if further := p.out.Ledger.entry(m.UID) < 0; further && p.out.InFlight >= most {
			o.Action, o.Reason = ActionHold, ReasonInFlight
			o.Message = fmt.Sprintf("%d Machines are being remediated or replaced, of at most %d at a time", p.out.InFlight, most)
			continue
		}
		p.out.Ledger.add(m, p.at, true)
		p.out.InFlight = len(p.out.Ledger.InFlight)
		if m.Verdict.Unstarted && m.Line != "" && m.Verdict.Reason != ReasonHasRemediateAnnotation {
			p.out.Ledger.fail(m, p.at)
		}
	}
}

func requested(v *Verdict) int {
	if v.Reason == ReasonHasRemediateAnnotation {
		return 0
	}
	return 1
}

// say completes the condition RemediationAllowed, and finds the next check.
func (p *plan) say() {
	unjudged, why := 0, ""
	for i := range p.machines {
		v := &p.machines[i].Verdict
		p.next(v.NextCheck)
		if v.Unjudged {
			unjudged, why = unjudged+1, cmp.Or(why, v.Reason)
		}
	}
	if !p.out.Allowed {
		return
	}
	if unjudged > 0 {
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
