package healthcheck

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LedgerAnnotation of a check holds its Ledger as JSON.
const LedgerAnnotation = "machinist.dev/remediations"

const (
	// maxEntries limits the size of a Ledger: as many Machines are in remediation at a time.
	maxEntries = 500
	// expiry is after which time a place counts no longer that has no Machine at all: a set makes another one at once, unless it was scaled
	// down. While there is a Machine in it, a place does not expire.
	expiry = time.Hour
)

// Ledger is what a check must remember, so that no more Machines disappear than its limit allows: which remediated Machines have no healthy
// replacement yet, and which outages there were. Times are in seconds since 1970.
type Ledger struct {
	// Check is the UID of the check: a copy of another check has another one, and no Ledger.
	Check    types.UID `json:"check"`
	InFlight []Entry   `json:"inFlight,omitempty"`
	// Successors are healthy Machines that took the place of another, and must not take a second one.
	Successors []types.UID `json:"successors,omitempty"`
	// Outages are those that last, and those from which Machines are recovering, by failure domain, empty for one of all Machines: when each
	// was found no more, and zero while it lasts, or one of its Machines cannot be judged.
	Outages map[string]int64 `json:"outages,omitempty"`
	// Requests are the kinds of the objects that remediate Machines for the check, also of those of earlier templates that are still there:
	// without them a check whose template was taken away or replaced would not find these again, and two would remediate one Machine.
	Requests []metav1.GroupVersionKind `json:"requests,omitempty"`
}

// Entry is a place that has no healthy Machine: that of one which was marked for remediation, or of its successor.
type Entry struct {
	Machine types.UID `json:"machine"`
	// Group is that of the Machine: its successor has the same.
	Group string `json:"group,omitempty"`
	// After is when the newest Machine was made that was seen when the place was recorded, by the clock of the API server: the successor was
	// made later.
	After int64 `json:"after"`
	// Gone is since when the place has no Machine at all, by the clock of the process; zero while it has one.
	Gone int64 `json:"gone,omitempty"`
	// Decided: this Machine itself is remediated.
	Decided bool `json:"decided,omitempty"`
}

// ParseLedger reads a Ledger. known is false for an empty text, one that cannot be read, and the Ledger of another check: then each
// Machine that has not started yet counts as the replacement of a remediated one. The kinds of requests are also those of another check,
// such as the one before a restore: requests belong to Machines, by UID, and somebody works on them.
func ParseLedger(text string, check types.UID) (ledger Ledger, known bool) {
	if text == "" || json.Unmarshal([]byte(text), &ledger) != nil || ledger.Check != check {
		return Ledger{Check: check, Requests: ledger.Requests}, false
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

// record records a place without a healthy Machine, and with decided that the Machine is remediated from now on.
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

// settle takes what is over out of the ledger: places whose Machine is healthy and not marked any more, and those that nobody has filled
// for long. The place of a Machine that is gone goes to one that was made later: until that one is healthy, one Machine is missing, however
// many were made.
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

// passes gives a place to the oldest Machine that was made for it, and returns that, nil while there is none.
func (e *Entry) passes(oldest []*Machine, taken map[types.UID]bool) *Machine {
	for _, m := range oldest {
		if !taken[m.UID] && m.Group == e.Group && m.Created.Unix() > e.After {
			e.Machine, e.Decided, taken[m.UID] = m.UID, false, true
			return m
		}
	}
	return nil
}

// expires reports whether a place has had no Machine for too long, and requests a look for when it will.
func (p *plan) expires(e *Entry) bool {
	if e.Gone == 0 || e.Gone > p.Now.Unix() { // a clock was set back
		e.Gone = p.Now.Unix()
	}
	left := time.Unix(e.Gone, 0).Add(expiry).Sub(p.Now)
	if left < 0 && slices.ContainsFunc(p.Machines, func(m Machine) bool { return m.Verdict.Unjudged }) { // nothing could take it meanwhile
		e.Gone, left = p.Now.Unix(), expiry
	}
	p.next(left + time.Second)
	return left < 0
}
