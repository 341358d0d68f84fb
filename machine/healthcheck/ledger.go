package healthcheck

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LedgerAnnotation of a check contains its Ledger as JSON.
const LedgerAnnotation = "machinist.dev/remediations"

const (
	// maxEntries limits the size of a Ledger, and so the number of simultaneous remediations.
	maxEntries = 500
	// expiry is the time after which a place without a Machine no longer counts: a set creates a replacement at once, unless it was scaled
	// down. A place with a Machine does not expire.
	expiry = time.Hour
)

// Ledger is the state of a check, so that no more Machines disappear than its limit allows: the remediated Machines without a healthy
// replacement, and the outages. Times are in seconds since 1970.
type Ledger struct {
	// Check is the UID of the check: a copy of a check has another UID, and no Ledger.
	Check    types.UID `json:"check"`
	InFlight []Entry   `json:"inFlight,omitempty"`
	// Successors are healthy Machines that replaced another one, and must not count as a second replacement.
	Successors []types.UID `json:"successors,omitempty"`
	// Outages are those in progress, and those from which Machines are recovering, by failure domain (empty for all Machines). The value is
	// when the outage was first not detected any more, and zero while it is in progress or one of its Machines cannot be judged.
	Outages map[string]int64 `json:"outages,omitempty"`
	// Requests are the kinds of the objects that remediate Machines for the check, including existing objects of earlier templates. Without
	// them, a check whose template was removed or replaced would not find these objects, and two would remediate one Machine.
	Requests []metav1.GroupVersionKind `json:"requests,omitempty"`
}

// Entry is a place without a healthy Machine: that of a Machine that was marked for remediation, or of its successor.
type Entry struct {
	Machine types.UID `json:"machine"`
	// Group is the group of the Machine and of its successor.
	Group string `json:"group,omitempty"`
	// After is the creation time of the newest Machine that existed when the place was recorded, by the clock of the API server: the successor
	// was created later.
	After int64 `json:"after"`
	// Gone is the time since which the place has no Machine, by the clock of the process; zero while it has one.
	Gone int64 `json:"gone,omitempty"`
	// Decided: this Machine itself is remediated.
	Decided bool `json:"decided,omitempty"`
}

// ParseLedger reads a Ledger. known is false for an empty text, an invalid text, and the Ledger of another check: then each Machine that
// has not started yet counts as the replacement of a remediated one. The kinds of requests are returned even from another check's Ledger,
// such as before a restore, because requests belong to Machines by UID and are still in progress.
func ParseLedger(text string, check types.UID) (ledger Ledger, known bool) {
	if text == "" || json.Unmarshal([]byte(text), &ledger) != nil || ledger.Check != check {
		return Ledger{Check: check, Requests: ledger.Requests}, false
	}
	return ledger, true
}

// String returns the JSON for LedgerAnnotation. Equal ledgers give equal text.
func (l Ledger) String() string {
	text, _ := json.Marshal(l) // texts and numbers never fail
	return string(text)
}

// inTime orders entries by time.
func inTime(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Machine, b.Machine))
}

func (l *Ledger) entry(uid types.UID) int {
	return slices.IndexFunc(l.InFlight, func(e Entry) bool { return e.Machine == uid })
}

// record records a place without a healthy Machine; decided: the Machine is remediated from now on.
func (p *plan) record(m *Machine, decided bool) {
	l := &p.out.Ledger
	e := Entry{Machine: m.UID, Group: m.Group, After: p.newest.Unix(), Decided: decided}
	at := l.entry(m.UID)
	if at < 0 {
		l.InFlight = append(l.InFlight, e)
	} else if decided && !l.InFlight[at].Decided {
		l.InFlight[at] = e
	}
}

// settle removes finished entries from the ledger: places whose Machine is healthy and no longer marked, and places that were empty for too
// long. The place of a Machine that is gone passes to a Machine that was created later: until that one is healthy, one Machine is missing,
// however many were created.
func (p *plan) settle() {
	byUID, taken := map[types.UID]*Machine{}, map[types.UID]bool{}
	for _, m := range p.machines {
		byUID[m.UID] = m
	}
	oldest := slices.SortedStableFunc(slices.Values(p.machines), func(a, b *Machine) int { return a.Created.Compare(b.Created) })
	successors := slices.Clone(p.Ledger.Successors)
	for _, uid := range successors {
		taken[uid] = true
	}
	for _, e := range p.Ledger.InFlight {
		taken[e.Machine] = true
	}
	settled := Ledger{Check: p.Ledger.Check, Requests: p.Ledger.Requests}
	for _, e := range slices.SortedFunc(slices.Values(p.Ledger.InFlight), inTime) {
		m := byUID[e.Machine]
		if m == nil {
			m = e.passes(oldest, taken)
		}
		switch {
		case m == nil && p.expires(&e):
			continue
		case m == nil:
		case m.Verdict.Class == Healthy && !m.Deleting && !m.Marked: // while it is marked, its owner may be deleting it
			successors = append(successors, m.UID)
			continue
		default:
			e.Group, e.Gone = m.Group, 0 // it may have another owner now
		}
		settled.InFlight = append(settled.InFlight, e)
	}
	if len(settled.InFlight) > 0 { // they could take one of these places
		settled.Successors = successors[max(0, len(successors)-maxEntries):]
	}
	p.out.Ledger = settled
}

// passes assigns the place to the oldest Machine that was created for it, and returns that Machine, or nil.
func (e *Entry) passes(oldest []*Machine, taken map[types.UID]bool) *Machine {
	for _, m := range oldest {
		if !taken[m.UID] && m.Group == e.Group && m.Created.Unix() > e.After {
			e.Machine, e.Decided, taken[m.UID] = m.UID, false, true
			return m
		}
	}
	return nil
}

// expires reports whether a place has had no Machine for too long, and otherwise requests a check at that time.
func (p *plan) expires(e *Entry) bool {
	if e.Gone == 0 || e.Gone > p.Now.Unix() { // a clock was set back
		e.Gone = p.Now.Unix()
	}
	left := time.Unix(e.Gone, 0).Add(expiry).Sub(p.Now)
	if left < 0 && slices.ContainsFunc(p.Machines, func(m Machine) bool { return m.Verdict.Unjudged }) { // nothing could take it
		e.Gone, left = p.Now.Unix(), expiry
	}
	p.next(left + time.Second)
	return left < 0
}
