package scale

import (
	"slices"
	"time"
)

// maxReplacing is the maximum number of simultaneous replacements: their names are in an annotation, whose size is limited.
const maxReplacing = 500

// Bounds of the replacement of new Machines, so that a broken template does not cost one machine after the other.
const (
	// backOff is the delay of the second replacement. It doubles for each further one, up to maxBackOff.
	backOff = time.Minute
	// maxBackOff is also the time without a replacement after which earlier ones are forgotten.
	maxBackOff = 24 * time.Hour
	// healthyAfter is how long a new Machine must have been available before earlier replacements are forgotten.
	healthyAfter = time.Hour
)

// Replacements are a set's record, in its Ledger, of the Machines that it replaces because a health check has failed.
type Replacements struct {
	// Names are the Machines to delete, sorted.
	Names []string `json:"names,omitempty"`
	// From is the first slot that a replacement can have. Count is the number of replacements in a row, including the first, without one that
	// stayed healthy. Last is the time of the last one, in whole seconds. All are zero when there is no back-off.
	From  int64 `json:"from,omitempty"`
	Count int   `json:"count,omitempty"`
	Last  int64 `json:"last,omitempty"`
}

// last returns the time of the last replacement.
func (p Replacements) last() time.Time { return time.Unix(p.Last, 0).UTC() }

// readRecord finds the Machines whose deletion was recorded, and drops obsolete records.
func (r *remediation) readRecord() {
	r.record = r.Replacements
	r.record.Names = nil
	for i := range r.Machines {
		m := &r.Machines[i]
		if (m.Deleting || m.Ailing) && slices.Contains(r.Replacements.Names, m.Name) { // other Machines have recovered
			r.record.Names = append(r.record.Names, m.Name)
		}
	}
	slices.Sort(r.record.Names)
	if r.record.Count == 0 {
		return
	}
	if over := r.over(); over.After(r.Now) {
		r.wake(over)
	} else {
		r.record = Replacements{Names: r.record.Names}
	}
}

// over returns when earlier replacements are forgotten: after a while, or when a Machine created after the last one has stayed healthy.
func (r *remediation) over() time.Time {
	over := r.record.last().Add(maxBackOff)
	for i := range r.Machines {
		m := &r.Machines[i]
		stays := m.Available && !m.Ailing && !m.Deleting && !m.availableSince.IsZero()
		healthy := m.availableSince.Add(healthyAfter)
		if stays && r.isNew(m) && !m.Created.Before(r.record.last()) && healthy.Before(over) {
			over = healthy
		}
	}
	return over
}

// isNew reports whether a Machine was created after the first replacement.
func (r *remediation) isNew(m *Machine) bool { return r.record.From > 0 && m.Slot >= r.record.From }

// finish records the Machines that are replaced now, and counts them once.
func (r *remediation) finish() {
	r.out.Replacements = r.record
	if len(r.begins) == 0 {
		return
	}
	record := &r.out.Replacements
	for _, m := range r.begins {
		record.Names = append(record.Names, m.Name)
	}
	slices.Sort(record.Names)
	switch now := r.Now.Unix(); {
	case record.Count == 0:
		record.From, record.Count, record.Last = r.Next, 1, now
	case slices.ContainsFunc(r.begins, r.isNew):
		record.Count, record.Last = record.Count+1, now
	}
}
