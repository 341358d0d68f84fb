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

// LedgerAnnotation of a set contains its Ledger.
const LedgerAnnotation = "machinist.dev/creations"

// Entry is a name that was reserved for a slot.
type Entry struct {
	Slot int64  `json:"slot"`
	Name string `json:"name"`
}

// Ledger is a set's record of its creations. It is written before anything is created under the names that it reserves, with the resource
// version that it was read at, so that only one of two writers reserves a slot. It is a value: its methods return another one.
type Ledger struct {
	// Set is the UID of the set that reserved slots; empty before the first. An object that was restored from a backup, moved to another API
	// server, or copied has the ledger of another set, whose slots and names are invalid here (see IsOf).
	Set types.UID `json:"uid,omitempty"`
	// Next is the first slot that was never reserved. Slots count from 1.
	Next int64 `json:"next"`
	// Pending are the reserved slots whose Machines were not observed yet, in order.
	Pending []Entry `json:"pending,omitempty"`
	// Replaced are the Machines that the set replaces. It is written before one of them is deleted.
	Replaced Replacements `json:"replaced,omitzero"`
}

// maxSlot is larger than every reserved slot: a larger number was written by another program.
const maxSlot = 1 << 60

// IsOf reports whether the ledger belongs to a set. A ledger that never reserved a slot fits every set.
func (l Ledger) IsOf(set types.UID) bool { return l.Set == "" || l.Set == set }

// errLedger matches the error of ParseLedger. An invalid ledger is not an empty one: nothing may be created.
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

// maxMissed is how many used names in a row prove that none is free: five free characters make 14 million names.
const maxMissed = 1000

// Reserve reserves n slots, and returns the ledger to write and the new entries. A slot whose name is used, by any object or another slot,
// is skipped forever. taken may be nil. Fewer slots are reserved if a naming template runs out of names.
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

// Abandon removes the last n reserved slots. If a process that has not seen this creates a Machine under one of them, the Machine is
// surplus and is deleted like any other.
func (l Ledger) Abandon(n int) Ledger {
	keep := len(l.Pending) - min(max(n, 0), len(l.Pending))
	l.Pending = slices.Clone(l.Pending[:keep])
	return l
}

// Settle removes the slots with these names, which are not used again: their Machines were observed or created, or another owner's object
// has the name. The result must be written before one of these Machines is deleted: a slot that is still reserved when its Machine is gone
// would be created again.
func (l Ledger) Settle(done map[string]bool) Ledger {
	l.Pending = slices.DeleteFunc(slices.Clone(l.Pending), func(e Entry) bool { return done[e.Name] })
	return l
}

// rebuiltGap is how many slots are skipped after the loss of a ledger: more than could have been reserved without being seen.
const rebuiltGap = 1 << 20

// Rebuilt returns the ledger of a set that has none, or one that is older than its Machines: behind the highest slot that was seen, and all
// slots that can have been reserved since.
func Rebuilt(set types.UID, highest int64) Ledger {
	return Ledger{Set: set, Next: max(highest, 0) + rebuiltGap}
}

// StampAnnotation of all objects that a set or a deployment creates contains their Stamp.
const StampAnnotation = "machinist.dev/slot"

// Stamp identifies the slot that an object was created for. It is written once, when the object is created.
type Stamp struct {
	// Set is the UID of the set or deployment that reserved Slot.
	Set  types.UID
	Slot int64
	// From is a digest of the template, for objects that a Machine references and for sets of a deployment; otherwise empty.
	From string
	// After is the time of the rollout that a deployment's set was created for, or zero.
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

// ReadStamp returns the stamp in annotations. Missing and invalid fields are zero.
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

// IsPartOf reports whether the stamp of an object under the name of a slot is that of the slot. The controller does not count, because the
// Machine may already control its objects. An object of another slot, or in deletion, is not: the slot is never used again, and the set
// does not wait.
func IsPartOf(obj metav1.Object, set types.UID, slot int64) bool {
	have := ReadStamp(obj.GetAnnotations())
	return obj.GetDeletionTimestamp() == nil && have.Set == set && have.Slot == slot
}
