package healthcheck

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LedgerAnnotation of a check holds its Ledger as JSON.
const LedgerAnnotation = "machinist.dev/remediations"

const (
	// maxEntries limits the size of a Ledger: as many Machines are in remediation at a time.
	maxEntries = 500
	// maxFailures is how many Machines in a row are remediated in one place, none of which was healthy, until a person requests more.
	maxFailures = 5
	// expiry is after which time a remediated Machine counts no longer as missing although no replacement became healthy, because its owner
	// may have been scaled down.
	expiry = 6 * time.Hour
)

// Ledger is what a check must remember, so that no more Machines disappear than its limit allows: which remediated Machines have no healthy
// replacement yet, and which outages there were. Times are in seconds since 1970.
type Ledger struct {
	// Check is the UID of the check: a copy of another check has another one, and no Ledger.
	Check    types.UID `json:"check"`
	InFlight []Entry   `json:"inFlight,omitempty"`
	// Successors are healthy Machines that took the place of another, and must not take a second one.
	Successors []types.UID `json:"successors,omitempty"`
	// Outages are those that last, and those from which Machines are recovering, sorted by domain.
	Outages []OutageEntry `json:"outages,omitempty"`
}

// Entry is a place that has no healthy Machine: that of one which was marked for remediation, or of its successor.
type Entry struct {
	Machine types.UID `json:"machine"`
	// Group is that of the Machine: its successor has the same.
	Group string `json:"group,omitempty"`
	// At is when the place became empty, by the clock of the process. After is when the newest Machine was made that was seen then, by the
	// clock of the API server: the successor was made later.
	At    int64 `json:"at"`
	After int64 `json:"after"`
	// Decided: this Machine itself is remediated.
	Decided bool `json:"decided,omitempty"`
	// Failures is how many Machines in a row were remediated in this place.
	Failures int `json:"failures,omitempty"`
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
	text, _ := json.Marshal(l) // texts and numbers never fail
	return string(text)
}

// inTime is the order of entries.
func inTime(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Machine, b.Machine))
}

func (l *Ledger) entry(uid types.UID) int {
	return slices.IndexFunc(l.InFlight, func(e Entry) bool { return e.Machine == uid })
}

// add records a place without a healthy Machine, and with decided that the Machine is remediated from now on. newest is when the newest
// Machine was made that is seen.
func (l *Ledger) add(m *Machine, now, newest time.Time, decided bool) {
	e := Entry{Machine: m.UID, Group: m.Group, At: now.Unix(), After: newest.Unix(), Decided: decided}
	if decided {
		e.Failures = 1
	}
	at := l.entry(m.UID)
	if at < 0 {
		l.InFlight = append(l.InFlight, e)
	} else if decided && !l.InFlight[at].Decided {
		e.Failures += l.InFlight[at].Failures
		l.InFlight[at] = e
	}
}

// settle returns the ledger without what is over: Machines that are healthy and not marked any more, and those that are gone for longer
// than a time. The place of a Machine that is gone goes to one that was made later: until that one is healthy, one Machine is missing,
// however many were made.
func (l Ledger) settle(machines []Machine, now time.Time, expiry time.Duration) Ledger {
	byUID, groups := map[types.UID]*Machine{}, map[string][]*Machine{}
	for i := range machines {
		m := &machines[i]
		byUID[m.UID], groups[m.Group] = m, append(groups[m.Group], m)
	}
	entries := slices.Clone(l.InFlight)
	slices.SortFunc(entries, inTime)
	taken, successors := map[types.UID]bool{}, slices.Clone(l.Successors)
	for _, e := range entries {
		taken[e.Machine] = true
	}
	for _, uid := range successors {
		taken[uid] = true
	}
	settled := Ledger{Check: l.Check}
	for _, e := range entries {
		m := byUID[e.Machine]
		if m == nil && now.Sub(time.Unix(e.At, 0)) > expiry {
			continue
		}
		if m == nil {
			if m = successor(groups[e.Group], &e, taken); m != nil {
				e.Machine, e.Decided, taken[m.UID] = m.UID, false, true
			}
		}
		switch {
		case m != nil && m.Verdict.Class == Healthy && !m.Deleting && !m.Marked: // while it is marked, its owner may be deleting it
			successors = append(successors, m.UID)
			continue
		case m != nil:
			e.Group = m.Group // it may have another owner now
		}
		settled.InFlight = append(settled.InFlight, e)
	}
	if len(settled.InFlight) > 0 { // they could take one of these places
		settled.Successors = successors[max(0, len(successors)-maxEntries):]
	}
	return settled
}

// successor returns the oldest Machine that was made after a place became empty and takes no other one.
func successor(group []*Machine, e *Entry, taken map[types.UID]bool) *Machine {
	var first *Machine
	for _, m := range group {
		if !taken[m.UID] && m.Created.Unix() > e.After && (first == nil || m.Created.Before(first.Created)) {
			first = m
		}
	}
	return first
}
