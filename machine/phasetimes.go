package machine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// phaseAt is a phase and when it began, zero when that is unknown. phaseTime is how long a Machine was in a phase that it has left.
type (
	phaseAt struct {
		phase string
		at    time.Time
	}
	phaseTime struct {
		phase string
		took  time.Duration
	}
)

// phaseTrack is what a process knows about the sequence of a Machine's phases. A phase counts as left when the status with the next phase,
// or the removal of the finalizer, is stored: of two processes only one can do that, so no phase is counted twice. Passes decide earlier,
// and phases that follow each other quickly may not be stored one by one; the times of those decisions are remembered until then, and lost
// with the process.
type phaseTrack struct {
	machine types.UID
	// stored is the phase in the object, with its start as this process knows it and as the object records it.
	stored phaseAt
	said   time.Time
	// path are the phases that were decided since, in order, and are not stored yet.
	path []phaseAt
}

// maxPath is how many phases are remembered that were decided and not stored. Every dialect has fewer in a row.
const maxPath = 16

// decided returns the track after a pass that read one phase and decided on another, or on the same. read.at is the time of the last phase
// change in the object; a new process starts from it.
func (t phaseTrack) decided(machine types.UID, read phaseAt, phase string, now time.Time) phaseTrack {
	if t.machine != machine || t.stored.phase != read.phase || read.at.After(t.said) {
		t = phaseTrack{machine: machine, stored: read, said: read.at} // new to this process, or written by another one
	}
	if phase == t.stored.phase {
		t.path = nil // the phase is the stored one again, before another was stored
		return t
	}
	at := slices.IndexFunc(t.path, func(p phaseAt) bool { return p.phase == phase })
	switch {
	case at >= 0:
		t.path = t.path[:at+1] // an earlier phase again: those between were not stored
	case len(t.path) < maxPath:
		t.path = append(slices.Clip(t.path), phaseAt{phase, now})
	}
	return t
}

// told returns the track after a status write with the last phase on the path and the time of that change, and the phases that the Machine
// left. A status write only applies to the version that its pass has read: no other process has stored, and counted, that phase.
func (t phaseTrack) told(said time.Time) (phaseTrack, []phaseTime) {
	if len(t.path) == 0 {
		return t, nil
	}
	last := len(t.path) - 1
	next := phaseTrack{machine: t.machine, stored: t.path[last], said: said}
	return next, t.left(next.stored.at)[:last+1]
}

// left returns how long the Machine was in each phase so far, if it leaves the last one now. Phases with an unknown start have a negative
// time.
func (t phaseTrack) left(now time.Time) []phaseTime {
	way := append([]phaseAt{t.stored}, t.path...)
	times := make([]phaseTime, len(way))
	for i, p := range way {
		end := now
		if i+1 < len(way) {
			end = way[i+1].at
		}
		times[i] = phaseTime{phase: p.phase, took: -1}
		if !p.at.IsZero() && p.phase != "" {
			times[i].took = max(0, end.Sub(p.at)) // objects store whole seconds, from another machine's clock
		}
	}
	return times
}

// wrote is called when the pass has written its decisions, or has found that there is nothing to write. It records what the pass decided
// about the phase, and observes the phases that the Machine left when that is stored.
func (m *Metrics) wrote(s *Scope, err error) {
	if m == nil {
		return
	}
	if s.memory.phases == nil {
		s.memory.phases = &phaseTrack{}
	}
	track := s.memory.phases.decided(s.State.UID, s.before, s.State.Phase, s.Now)
	var left []phaseTime
	switch {
	case err == nil && s.Written() && s.env.released(&s.State):
		left = track.left(s.Now)
		track = phaseTrack{}
	case err == nil && s.stores && s.State.Phase != s.before.phase:
		track, left = track.told(s.State.LastUpdated.Truncate(time.Second))
	}
	*s.memory.phases = track
	for _, phase := range left {
		if phase.took >= 0 {
			m.phaseTime.WithLabelValues(m.phaseNames.admit(phase.phase)).Observe(phase.took.Seconds())
		}
	}
}
