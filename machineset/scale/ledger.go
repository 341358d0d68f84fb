package scale

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LedgerAnnotation of a set holds its Ledger.
const LedgerAnnotation = "machinist.dev/creations"

// Entry is a name that was taken for a slot.
type Entry struct {
	Slot int64  `json:"slot"`
	Name string `json:"name"`
}

// Ledger is what a set records about its creations. It is written before anything is created under the names that it takes, with the
// resource version that it was read at, so that of two writers only one takes a slot. It is a value: its methods return another
// one.
type Ledger struct {
	// Set is the UID of the set that took slots; empty before the first. An object that was restored from a backup, moved to another
	// API server, or copied has the ledger of another set: its slots and names mean nothing here (see IsOf).
	Set types.UID `json:"uid,omitempty"`
	// Next is the first slot that was never taken. Slots count from 1.
	Next int64 `json:"next"`
	// Pending are the reserved slots whose Machines were not observed yet, in order.
	Pending []Entry `json:"pending,omitempty"`
	// Replaced are the Machines that the set replaces. They are written before one of them is deleted.
	Replaced Replacements `json:"replaced,omitzero"`
}

// maxSlot is larger than every reserved slot: a larger number was written by another program.
const maxSlot = 1 << 60

// IsOf reports whether the ledger is that of a set. One that never reserved a slot fits every set.
func (l Ledger) IsOf(set types.UID) bool { return l.Set == "" || l.Set == set }

// errLedger matches the error of ParseLedger. A ledger that cannot be read is not an empty one: nothing may be created.
var errLedger = errors.New("the creation ledger cannot be read")

// ParseLedger reads a ledger. It accepts what String returns.
func ParseLedger(text string) (Ledger, error) {
	var l Ledger
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return Ledger{}, fmt.Errorf("%w: %w", errLedger, err)
	}
	last := int64(0)
	for _, e := range l.Pending {
		if e.Name == "" || e.Slot <= last || e.Slot >= l.Next {
			return Ledger{}, fmt.Errorf("%w: slot %d named %q does not fit next %d", errLedger, e.Slot, e.Name, l.Next)
		}
		last = e.Slot
	}
	if l.Next < 1 || l.Next > maxSlot {
		return Ledger{}, fmt.Errorf("%w: next is %d", errLedger, l.Next)
	}
	if r := l.Replaced; r.From < 0 || r.Count < 0 || (r.From > 0) != (r.Count > 0) {
		return Ledger{}, fmt.Errorf("%w: %d replacements from slot %d", errLedger, r.Count, r.From)
	}
	return l, nil
}

// NewLedger returns the ledger of a set that never created anything.
func NewLedger() Ledger { return Ledger{Next: 1} }

// String returns the ledger as text for LedgerAnnotation. Equal ledgers give equal texts.
func (l Ledger) String() string { return textOf(l) }

// textOf returns a record as JSON.
func textOf(record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		return "" // numbers and strings always have a text
	}
	return string(text)
}

// maxMissed is how many taken names in a row show that there are no others: five free characters make 14 million names.
const maxMissed = 1000

// Reserve takes n slots, and returns the ledger to write and what was taken. A slot whose name is taken, by whatever object or by
// another slot, is left out for ever. taken may be nil. Fewer slots are taken where names run out: a naming template may have few.
func (l Ledger) Reserve(n int, naming Naming, taken func(name string) bool) (Ledger, []Entry) {
	names := map[string]bool{}
	for _, e := range l.Pending {
		names[e.Name] = true
	}
	next := l
	next.Set = naming.set
	next.Pending = slices.Clone(l.Pending)
	var reserved []Entry
	for missed := 0; len(reserved) < n && missed < maxMissed; missed++ {
		e := Entry{Slot: next.Next, Name: naming.Name(next.Next)}
		next.Next++
		if names[e.Name] || (taken != nil && taken(e.Name)) {
			continue
		}
		names[e.Name] = true
		reserved, missed = append(reserved, e), -1
	}
	next.Pending = append(next.Pending, reserved...)
	return next, reserved
}

// Abandon forgets the n slots that were taken last. A Machine that is created under one of them all the same, by a process that has
// not seen this, is one too many and is deleted like any other.
func (l Ledger) Abandon(n int) Ledger {
	keep := len(l.Pending) - min(max(n, 0), len(l.Pending))
	l.Pending = slices.Clone(l.Pending[:keep])
	return l
}

// Settle forgets the slots with these names, which are not used again: their Machines were observed or created, or another owner's object
// has the name. It has to be written before one of these Machines is deleted: a slot that is still reserved when its Machine is gone would
// be created again.
func (l Ledger) Settle(done map[string]bool) Ledger {
	l.Pending = slices.DeleteFunc(slices.Clone(l.Pending), func(e Entry) bool { return done[e.Name] })
	return l
}

// rebuiltGap is how many slots are left out where a ledger was lost: more than could have been taken and not be seen.
const rebuiltGap = 1 << 20

// Rebuilt returns the ledger of a set that has none of its own, or an earlier one than its Machines are of: behind the highest slot that
// was seen and all that can have been taken since.
func Rebuilt(set types.UID, highest int64) Ledger {
	return Ledger{Set: set, Next: max(highest, 0) + rebuiltGap}
}

// StampAnnotation of everything that a set or a deployment creates holds its Stamp.
const StampAnnotation = "machinist.dev/slot"

// Stamp is what an object was created for. It is written once, when the object is created.
type Stamp struct {
	// Set is the UID of the set or deployment that took Slot.
	Set  types.UID
	Slot int64
	// From is a digest of the template, for what a Machine refers to and for the set of a deployment; empty otherwise.
	From string
	// After is the time of a rollout that the set of a deployment was made for, zero without.
	After time.Time
}

// Annotations returns the stamp as the only annotation.
func (s Stamp) Annotations() map[string]string {
	text := string(s.Set) + "/" + strconv.FormatInt(s.Slot, 10) + "/" + s.From
	if !s.After.IsZero() {
		text += "/" + s.After.UTC().Format(time.RFC3339)
	}
	return map[string]string{StampAnnotation: strings.TrimSuffix(text, "/")}
}

// ReadStamp returns the stamp in annotations. What it does not have, and what is unreadable, is zero.
func ReadStamp(annotations map[string]string) Stamp {
	set, rest, _ := strings.Cut(annotations[StampAnnotation], "/")
	number, rest, _ := strings.Cut(rest, "/")
	from, after, _ := strings.Cut(rest, "/")
	slot, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return Stamp{}
	}
	at, _ := time.Parse(time.RFC3339, after) // zero with an error
	return Stamp{Set: types.UID(set), Slot: slot, From: from, After: at}
}

// IsPartOf judges an object that exists under the name of a slot by its stamp alone: of what a Machine refers to, the Machine may have
// become the controller already. One of another slot, or in deletion, is none: the slot is never used again, and the set does not wait.
func IsPartOf(obj metav1.Object, set types.UID, slot int64) bool {
	have := ReadStamp(obj.GetAnnotations())
	return obj.GetDeletionTimestamp() == nil && have.Set == set && have.Slot == slot
}
