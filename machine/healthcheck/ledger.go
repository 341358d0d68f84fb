package healthcheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// LedgerAnnotation of a check holds its Ledger as JSON.
const LedgerAnnotation = "machinist.dev/remediations"

// maxEntries limits the size of a Ledger: as many Machines are in remediation at a time.
const maxEntries = 500

// Ledger is what a check must remember, so that no more Machines disappear than its budget: which remediated Machines have no healthy
// replacement yet, which owners make Machines that do not start, and which outages there were. Times are in seconds since 1970.
type Ledger struct {
	// Check is the UID of the check: a copy of another check has another one, and no Ledger.
	Check    types.UID `json:"check"`
	InFlight []Entry   `json:"inFlight,omitempty"`
	Lines    []Line    `json:"lines,omitempty"`
	// Successors are healthy Machines that took the place of another, and must not take a second one.
	Successors []types.UID `json:"successors,omitempty"`
	// Outages are those that last, and those from which Machines are recovering, sorted by domain.
	Outages []OutageEntry `json:"outages,omitempty"`
}

// Entry is a place that has no healthy Machine: that of one which was marked for remediation, or of its successor. Group is that of the
// Machine: its successor has the same. Decided: this Machine itself is remediated. At is when the place became empty, by the clock of the
// process. The others are by the clock of the API server, and say with it which Machines were made later: After is when the newest
// Machines were made that were seen at that time, zero where an earlier version has recorded the place, and Seen are the beginnings of
// their UIDs, empty when they are many. Deleted is when the deletion of the Machine was requested, zero until that is seen.
type Entry struct {
	Machine types.UID `json:"machine"`
	Group   string    `json:"group,omitempty"`
	At      int64     `json:"at"`
	After   int64     `json:"after,omitempty"`
	Seen    string    `json:"seen,omitempty"`
	Deleted int64     `json:"deleted,omitempty"`
	Decided bool      `json:"decided,omitempty"`
}

// Line is an owner whose Machines did not start. Failures counts the rounds of remediation, one for all Machines that were there. Last is
// when the last round was, and After when the newest Machine was made that was seen at that time, as in Entry.
type Line struct {
	Owner    types.UID `json:"owner"`
	Failures int       `json:"failures"`
	Last     int64     `json:"last"`
	After    int64     `json:"after,omitempty"`
}

// ParseLedger reads a Ledger. known is false for an empty text, one that cannot be read, and the Ledger of another check: then each
// Machine that has not started yet counts as the replacement of a remediated one.
func ParseLedger(text string, check types.UID) (ledger Ledger, known bool) {
	if text == "" || json.Unmarshal([]byte(text), &ledger) != nil || ledger.Check != check {
		return Ledger{Check: check}, false
	}
	return ledger, true
}

// String returns the JSON for LedgerAnnotation, the same for equal ledgers.
func (l Ledger) String() string {
	text, err := json.Marshal(l)
	if err != nil { // texts and numbers never fail
		return fmt.Sprintf("{%q:%q}", "check", l.Check)
	}
	return string(text)
}

// notAfter returns the ledger with no time that is later than now: a clock that was ahead by hours would have a check wait for hours. It
// changes nothing where a Machine was made, or its Node became healthy, later than now: then the clock of this process is behind. Nor does
// it without Machines, such as those that a cache leaves out: they would be what shows that.
func (l Ledger) notAfter(now time.Time, machines []Machine) Ledger {
	behind := func(m Machine) bool { return contract.IsAhead(m.Created, now) || contract.IsAhead(m.well(now), now) }
	if len(machines) == 0 || slices.ContainsFunc(machines, behind) {
		return l
	}
	correct := func(at *int64) {
		if contract.IsAhead(time.Unix(*at, 0), now) {
			*at = now.Unix()
		}
	}
	l.InFlight, l.Lines, l.Outages = slices.Clone(l.InFlight), slices.Clone(l.Lines), slices.Clone(l.Outages)
	for i := range l.InFlight {
		correct(&l.InFlight[i].At)
	}
	for i := range l.Lines {
		correct(&l.Lines[i].Last)
	}
	for i := range l.Outages {
		correct(&l.Outages[i].Ended)
	}
	return l
}

// mostAhead is how far ahead of this process the clock of a Node is believed: one that is further ahead is wrong itself.
const mostAhead = 12 * time.Hour

// well returns since when a healthy Machine is, as its Node says; zero for another one, and where the Node is not believed.
func (m *Machine) well(now time.Time) time.Time {
	if m.Verdict.Class != Healthy || m.Verdict.Since.After(now.Add(mostAhead)) {
		return time.Time{}
	}
	return m.Verdict.Since
}

// inTime is the order of entries.
func inTime(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.last(), b.last()), cmp.Compare(a.Machine, b.Machine))
}

func (l *Ledger) entry(uid types.UID) int {
	return slices.IndexFunc(l.InFlight, func(e Entry) bool { return e.Machine == uid })
}

func (l *Ledger) line(owner types.UID) (Line, bool) {
	at := slices.IndexFunc(l.Lines, func(line Line) bool { return line.Owner == owner })
	if at < 0 {
		return Line{Owner: owner}, false
	}
	return l.Lines[at], true
}

// decided reports whether a Machine is in remediation.
func (l *Ledger) decided(uid types.UID) bool {
	at := l.entry(uid)
	return at >= 0 && l.InFlight[at].Decided
}

// add records a place without a healthy Machine, and with decided that the Machine is remediated from now on.
func (l *Ledger) add(m *Machine, now moment, decided bool) {
	e := Entry{Machine: m.UID, Group: m.Group, At: now.at, After: now.newest, Seen: now.seen, Decided: decided}
	e.observe(m)
	at := l.entry(m.UID)
	if at < 0 {
		l.InFlight = append(l.InFlight, e)
	} else if decided && !l.InFlight[at].Decided {
		l.InFlight[at] = e
	}
}

// fail records that a Machine which did not start is remediated. Machines that were there at the last failure belong to the same round.
func (l *Ledger) fail(m *Machine, now moment) {
	line, known := l.line(m.Line)
	switch {
	case !known:
		l.Lines = append(l.Lines, Line{Owner: m.Line, Failures: 1, Last: now.at, After: now.newest})
	case line.isBefore(m):
		line.Failures, line.Last, line.After = line.Failures+1, now.at, now.newest
		l.Lines[slices.IndexFunc(l.Lines, func(have Line) bool { return have.Owner == m.Line })] = line
	}
}

// settle returns the ledger without what is over: Machines that are healthy and not marked any more, those that are gone for longer than
// the expiry, and owners with a Machine that started after their last failure. The place of a Machine that is gone goes to one that was
// made later: until that one is healthy, one Machine is missing, however many were made. One that is leaving has its place until it is
// gone. all are also those that the check skips: one that has taken a place takes no other later.
func (l Ledger) settle(machines, leaving, all []Machine, now time.Time, expiry time.Duration) Ledger {
	byUID, groups := indexed(machines, leaving)
	expired := func(at int64) bool { return expiry >= 0 && now.Unix()-at > int64(expiry/time.Second) }
	entries := slices.Clone(l.InFlight)
	slices.SortFunc(entries, inTime)
	taken, successors := map[types.UID]bool{}, slices.Clone(l.Successors)
	for _, e := range entries {
		taken[e.Machine] = true
	}
	for _, uid := range successors {
		taken[uid] = true
	}
	settled := Ledger{Check: l.Check, Lines: l.failing(machines, expired)}
	for _, e := range entries {
		m := byUID[e.Machine]
		if m == nil && expired(e.At) {
			continue
		}
		if m == nil {
			m = successor(groups[e.Group], &e, taken)
			e.succeed(m, taken)
		}
		switch {
		case m != nil && m.isBack():
			successors = append(successors, m.UID)
			continue
		case m != nil:
			e.Group = m.Group // it may have another owner now
			e.observe(m)
		}
		settled.InFlight = append(settled.InFlight, e)
	}
	settled.Successors = stillTaken(successors, all, settled.InFlight)
	return settled
}

// maxUnseen is how many Machines are remembered that have taken a place and are not seen: a cache may leave them out for a while.
const maxUnseen = 20

// stillTaken returns those of the Machines which have taken a place that could take one of these others.
func stillTaken(successors []types.UID, all []Machine, others []Entry) (still []types.UID) {
	unseen := 0
	for _, uid := range slices.Backward(successors) { // the latest are remembered
		at := slices.IndexFunc(all, func(m Machine) bool { return m.UID == uid })
		could := at >= 0 && slices.ContainsFunc(others, func(e Entry) bool { return e.earliest() <= all[at].Created.Unix() })
		if at < 0 && len(others) > 0 && unseen < maxUnseen {
			could, unseen = true, unseen+1
		}
		if could {
			still = append(still, uid)
		}
	}
	slices.Reverse(still)
	return still
}

// indexed returns all Machines by UID, and those that can take a place by group.
func indexed(machines, leaving []Machine) (byUID map[types.UID]*Machine, groups map[string][]*Machine) {
	byUID, groups = map[types.UID]*Machine{}, map[string][]*Machine{}
	for i := range machines {
		m := &machines[i]
		byUID[m.UID], groups[m.Group] = m, append(groups[m.Group], m)
	}
	for i := range leaving {
		byUID[leaving[i].UID] = &leaving[i]
	}
	return byUID, groups
}

// succeed gives the place to another Machine, if there is one.
func (e *Entry) succeed(m *Machine, taken map[types.UID]bool) {
	if m != nil {
		e.Machine, e.Decided, taken[m.UID] = m.UID, false, true
	}
}

// isBack reports whether a Machine needs no remediation any more. While it is marked, its owner may be deleting it.
func (m *Machine) isBack() bool { return m.Verdict.Class == Healthy && !m.Deleting && !m.Marked }

// failing returns the owners none of whose Machines has started since their last failure. One without Machines may be about to make the
// next.
func (l Ledger) failing(machines []Machine, expired func(int64) bool) []Line {
	var lines []Line
	for _, line := range l.Lines {
		has, started := false, false
		for i := range machines {
			m := &machines[i]
			has = has || m.Line == line.Owner
			started = started || m.Line == line.Owner && m.Verdict.Class == Healthy && !m.Deleting && line.isBefore(m)
		}
		if !started && (has || !expired(line.Last)) {
			lines = append(lines, line)
		}
	}
	return lines
}

// successor returns the oldest Machine that was made after a place became empty and takes no other one.
func successor(group []*Machine, e *Entry, taken map[types.UID]bool) *Machine {
	var first *Machine
	for _, m := range group {
		if !taken[m.UID] && e.isBefore(m) && (first == nil || m.Created.Before(first.Created)) {
			first = m
		}
	}
	return first
}
