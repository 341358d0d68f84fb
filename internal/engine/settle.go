package engine

import (
	"hash/fnv"
	"io"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Settling is what a process remembers about the status of one object.
type Settling struct {
	// Fingerprint is that of the status that waits. Since is when it first differed from the stored one, zero while none waits, and Last
	// when it changed last.
	Fingerprint uint64
	Since, Last time.Time
	// Written is when the status of an object that counts others was written last.
	Written time.Time
}

// SettleFacts are the inputs of Settle. A kind sets Urgent, Final, Expecting, Counts and Fingerprint, and Flush the others.
type SettleFacts struct {
	// Dirty: the stored status differs from the wanted one.
	Dirty bool
	// Urgent: a step needs it written before it continues, or it must not be hidden.
	Urgent bool
	// Final: no further change is expected without an external change.
	Final bool
	// Expecting: the next change will probably follow, though not at once.
	Expecting bool
	// Counts: the object counts others, instead of going through stages.
	Counts bool
	// Pending is what the last pass did not write.
	Pending Settling
	// Fingerprint is a hash of the wanted status.
	Fingerprint uint64
	Now         time.Time
	// Delay is how long a status waits before it is written; zero and below write at once.
	Delay time.Duration
}

// maxDelays is for how many delays a status that keeps changing can stay unwritten.
const maxDelays = 5

// maxPatience is the longest delay while writes are slow.
const maxPatience = time.Minute

// Patience is how long a status waits before it is written. When more statuses wait than can be written, they would delay other work, and
// be outdated when they are written: then the delay is twice as long as writing them all takes.
func Patience(delay, backlog time.Duration) time.Duration {
	if delay <= 0 {
		return delay
	}
	return max(delay, min(2*backlog, maxPatience))
}

// Settle decides whether the status of an object is written now, and if not, when to look again. What is not written is only in memory:
// losing it costs at most one more delay. The two kinds of objects differ only in where the delay begins:
//
//   - an object that goes through stages waits until its status has not changed for the delay. Stages that follow each other at once are
//     one write, while an object that stays in a stage shows it after the delay;
//   - an object that counts others waits for the delay after the last write. A count shows at once after a quiet time, while objects that
//     change one after the other cost one write.
func Settle(f SettleFacts) (now bool, again time.Duration, pending Settling) {
	settled := Settling{Written: f.Pending.Written}
	if !f.Dirty {
		return false, 0, settled
	}
	if f.Urgent || f.Final || f.Delay <= 0 {
		return true, 0, settled
	}
	pending = f.Pending
	if pending.Since.IsZero() {
		pending.Since, pending.Last = f.Now, f.Now
	} else if pending.Fingerprint != f.Fingerprint {
		pending.Last = f.Now
	}
	pending.Fingerprint = f.Fingerprint
	due, limit := pending.Last.Add(f.Delay), pending.Since.Add(maxDelays*f.Delay)
	switch {
	case f.Counts:
		due = pending.Written.Add(f.Delay)
	case f.Expecting || limit.Before(due):
		due = limit
	}
	if !f.Now.Before(due) {
		return true, 0, settled
	}
	return false, due.Sub(f.Now), pending
}

// settlings are those of all objects of a Frame. Safe for concurrent use.
type settlings struct {
	mu      sync.Mutex
	all     map[types.NamespacedName]Settling
	waiting int
}

func (s *settlings) of(key types.NamespacedName) Settling {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

// set replaces what is remembered about an object; the zero Settling forgets it.
func (s *settlings) set(key types.NamespacedName, to Settling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all[key].Since.IsZero() {
		s.waiting--
	}
	if !to.Since.IsZero() {
		s.waiting++
	}
	switch {
	case to == Settling{}:
		delete(s.all, key)
	case s.all == nil:
		s.all = map[types.NamespacedName]Settling{key: to}
	default:
		s.all[key] = to
	}
}

// Waiting returns how many statuses wait to be written.
func (f *Frame[S, U]) Waiting() int {
	f.settlings.mu.Lock()
	defer f.settlings.mu.Unlock()
	return f.settlings.waiting
}

// patience is how long a status waits: the statuses that wait are written one after the other.
func (f *Frame[S, U]) patience() time.Duration {
	return Patience(f.Options.StatusDelay, time.Duration(f.Waiting())*f.Writer.Pace())
}

// Fingerprint tells two wanted statuses apart.
func Fingerprint(phase string, conditions []metav1.Condition) uint64 {
	h := fnv.New64a()
	write := func(s string) { _, _ = io.WriteString(h, s); _, _ = h.Write([]byte{0}) } // a hash never fails
	write(phase)
	for i := range conditions {
		c := &conditions[i]
		write(c.Type)
		write(string(c.Status))
		write(c.Reason)
		write(c.Message)
	}
	return h.Sum64()
}
