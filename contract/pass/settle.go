package pass

import (
	"hash/fnv"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settling records when a status first differed from the stored one, and since when it is unchanged.
type Settling struct {
	Fingerprint uint64
	Since, Last time.Time
}

// SettleFacts are the inputs of Settle.
type SettleFacts struct {
	// Dirty: the stored status differs from the wanted one.
	Dirty bool
	// Urgent: a step needs it written before it continues.
	Urgent bool
	// Final: no further change is expected without an external change.
	Final bool
	// Expecting: the next change will probably follow, though not at once.
	Expecting bool
	// Pending is what the last pass did not write.
	Pending Settling
	// Fingerprint is a hash of the wanted status.
	Fingerprint uint64
	Now         time.Time
	// Delay is how long a status must stay unchanged before it is written; zero and below write at once.
	Delay time.Duration
}

// maxDelays is for how many delays a status that keeps changing can stay unwritten.
const maxDelays = 5

// maxPatience is the longest delay while writes are slow.
const maxPatience = time.Minute

// Patience is how long a status must stay unchanged before it is written. When more statuses wait than can be written, they would delay
// other work, and be outdated when they are written: then the delay is twice as long as writing them all takes.
func Patience(delay, backlog time.Duration) time.Duration {
	if delay <= 0 {
		return delay
	}
	return max(delay, min(2*backlog, maxPatience))
}

// Settle decides whether the status of an object that goes through stages is written now, and if not, when to look again. An object whose
// stages follow each other at once is thereby written once and not once per stage, while one that stays in a stage shows it after Delay.
// What is not written is only in memory: losing it costs at most one more delay.
func Settle(f SettleFacts) (now bool, again time.Duration, pending Settling) {
	if !f.Dirty {
		return false, 0, Settling{}
	}
	if f.Urgent || f.Final || f.Delay <= 0 {
		return true, 0, Settling{}
	}
	pending = f.Pending
	if pending.Since.IsZero() {
		pending = Settling{Since: f.Now, Last: f.Now}
	} else if pending.Fingerprint != f.Fingerprint {
		pending.Last = f.Now
	}
	pending.Fingerprint = f.Fingerprint
	due, limit := pending.Last.Add(f.Delay), pending.Since.Add(maxDelays*f.Delay)
	if f.Expecting || limit.Before(due) {
		due = limit
	}
	if !f.Now.Before(due) {
		return true, 0, Settling{}
	}
	return false, due.Sub(f.Now), pending
}

// Throttle decides whether the status of an object that counts others is written now: at once after a quiet time, so that a count shows
// immediately, and otherwise a delay after the last write, so that objects which change one after the other cost one write. left is when to
// look again.
func Throttle(urgent bool, written, now time.Time, delay time.Duration) (left time.Duration) {
	due := written.Add(delay)
	if urgent || delay <= 0 || !now.Before(due) {
		return 0
	}
	return due.Sub(now)
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
