package contract

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DeletionAnnotation holds what an object records about its deletion, a Deletion as JSON.
const DeletionAnnotation = "machinist.dev/deletion"

// Names of the stages of a deletion that are recorded. They are those of the steps.
const (
	StageDrain             = "drain"
	StageVolumes           = "volumes"
	StagePreTerminateHooks = "pre-terminate-hooks"
	StageDeleteNode        = "delete-node"
)

// Deletion is what an object records about its present deletion: how far it is. It belongs to one deletion: the record of another one, in
// a backup that was restored or of a deletion that was taken back, is none. The zero value is that of an object that is not being deleted.
// Not safe for concurrent use.
type Deletion struct {
	// Requested is the deletion timestamp.
	Requested time.Time `json:"deletion"`
	// Node is the UID of the Node whose stages have ended.
	Node types.UID `json:"node,omitempty"`
	// Stages are those that have begun or ended, by name.
	Stages map[string]stageTimes `json:"stages,omitempty"`
}

// stageTimes are when a stage of a deletion began and when it ended, in whole seconds; zero before.
type stageTimes struct {
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// DeletionOf returns the record of the present deletion of an object; without one, and for a text that is no record, that of a deletion of
// which no stage has begun. starts are those that the object stores elsewhere, zero for none: they count unless the record has one, or they
// are older than the deletion by more than clocks differ. A stage whose start is yet to come begins anew: a process whose clock was ahead
// has recorded it, and its limit would end as much later.
func DeletionOf(m *Metadata, starts map[string]time.Time, now time.Time) Deletion {
	if m.Deleting.IsZero() {
		return Deletion{}
	}
	d := Deletion{}
	if json.Unmarshal([]byte(m.Annotations[DeletionAnnotation]), &d) != nil || !d.Requested.Equal(m.Deleting) {
		d = Deletion{}
	}
	d.Requested = m.Deleting.UTC()
	for name, start := range starts {
		if times := d.Stages[name]; times.Start.IsZero() && d.canBegin(start) {
			times.Start = start.UTC()
			d.set(name, times)
		}
	}
	for name, times := range d.Stages {
		if IsAhead(times.Start, now) {
			times.Start = d.notBefore(now)
			d.set(name, times)
		}
	}
	return d
}

// Deletion returns the record of the present deletion of a Machine, see DeletionOf.
func (s *MachineState) Deletion(now time.Time) Deletion {
	return DeletionOf(&s.Metadata, map[string]time.Time{StageDrain: s.DrainStarted, StageVolumes: s.VolumeDetachStarted}, now)
}

// HasEnded reports whether a stage has ended for the Node with a UID.
func (d Deletion) HasEnded(stage string, node types.UID) bool {
	return node != "" && d.Node == node && !d.Stages[stage].End.IsZero()
}

// Begin records that a stage begins now, once, and reports whether it did. No stage begins before the deletion, whatever the clock.
func (d *Deletion) Begin(stage string, now time.Time) bool {
	times := d.Stages[stage]
	if !times.Start.IsZero() {
		return false
	}
	times.Start = d.notBefore(now)
	d.set(stage, times)
	return true
}

// End records that a stage ends now for the Node with a UID, and reports whether it had not ended for it before. What has ended for another
// Node has not ended for this one.
func (d *Deletion) End(stage string, node types.UID, now time.Time) bool {
	if d.HasEnded(stage, node) {
		return false
	}
	for name, times := range d.Stages {
		if d.Node != "" && d.Node != node {
			times.End = time.Time{}
			d.Stages[name] = times
		}
	}
	times := d.Stages[stage]
	times.End, d.Node = d.notBefore(now), node
	d.set(stage, times)
	return true
}

// Changes returns the changes of an object's annotations that store the record, without the starts of the stages that the object stores
// elsewhere; none when it is stored. They remove the record of another deletion.
func (d Deletion) Changes(annotations map[string]string, elsewhere ...string) map[string]Change[string] {
	have, found := annotations[DeletionAnnotation]
	switch text := d.without(elsewhere).text(); {
	case text == "" && found:
		return map[string]Change[string]{DeletionAnnotation: Cleared[string]()}
	case text != have:
		return map[string]Change[string]{DeletionAnnotation: SetTo(text)}
	}
	return nil
}

// without returns a copy without the starts of some stages.
func (d Deletion) without(stages []string) Deletion {
	left := Deletion{Requested: d.Requested, Node: d.Node}
	for name, times := range d.Stages {
		if slices.Contains(stages, name) {
			times.Start = time.Time{}
		}
		if times != (stageTimes{}) {
			left.set(name, times)
		}
	}
	return left
}

// text is the annotation, empty while no stage has begun or ended.
func (d Deletion) text() string {
	if len(d.Stages) == 0 {
		return ""
	}
	text, err := json.Marshal(d)
	if err != nil { // a year beyond 9999
		return ""
	}
	return string(text)
}

func (d *Deletion) set(stage string, times stageTimes) {
	if d.Stages == nil {
		d.Stages = map[string]stageTimes{}
	}
	d.Stages[stage] = times
}

func (d Deletion) notBefore(now time.Time) time.Time {
	if now.Before(d.Requested) {
		now = d.Requested
	}
	return now.UTC().Truncate(time.Second)
}

// canBegin reports whether a start can be one of this deletion.
func (d Deletion) canBegin(start time.Time) bool {
	return !start.IsZero() && !start.Before(d.Requested.Add(-ClockTolerance))
}
