package contract

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DeletionAnnotation holds the Deletion of an object as JSON.
const DeletionAnnotation = "machinist.dev/deletion"

// Names of the recorded stages of a deletion. They are the names of the steps.
const (
	StageDrain             = "drain"
	StageVolumes           = "volumes"
	StagePreTerminateHooks = "pre-terminate-hooks"
	StageDeleteNode        = "delete-node"
)

// Deletion records the progress of one deletion of an object. A record of another deletion is ignored, such as one in a restored backup or
// of a deletion that was undone. The zero value belongs to an object that is not being deleted. Not safe for concurrent use.
type Deletion struct {
	// Requested is the deletion timestamp.
	Requested time.Time `json:"deletion"`
	// Node is the UID of the Node whose stages have ended.
	Node types.UID `json:"node,omitempty"`
	// Stages are the stages that have started or ended, by name.
	Stages map[string]stageTimes `json:"stages,omitempty"`
}

// stageTimes holds when a stage started and when it ended, in whole seconds; zero before.
type stageTimes struct {
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// DeletionOf returns the record of the present deletion of an object. Without a valid record, it returns one in which no stage has started.
// starts holds the start times that the object stores in other fields, zero for none. A time in starts applies unless the record has its
// own, or the time is more than ClockTolerance before the deletion. A start time that IsAhead of now is reset: a process whose clock was
// ahead wrote it, and the limit of the stage would end too late.
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

// Deletion returns the record of the present deletion of a Machine; see DeletionOf.
func (s *MachineState) Deletion(now time.Time) Deletion {
	return DeletionOf(&s.Metadata, map[string]time.Time{StageDrain: s.DrainStarted, StageVolumes: s.VolumeDetachStarted}, now)
}

// HasEnded reports whether a stage has ended for the Node with the given UID.
func (d Deletion) HasEnded(stage string, node types.UID) bool {
	return node != "" && d.Node == node && !d.Stages[stage].End.IsZero()
}

// Begin records the start of a stage, and reports whether it was not recorded before. The start is never before the deletion, whatever the
// clock.
func (d *Deletion) Begin(stage string, now time.Time) bool {
	times := d.Stages[stage]
	if !times.Start.IsZero() {
		return false
	}
	times.Start = d.notBefore(now)
	d.set(stage, times)
	return true
}

// End records the end of a stage for the Node with the given UID, and reports whether it was not recorded before. Ends of stages of another
// Node are dropped.
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

// Changes returns the changes to an object's annotations that store the record, or none when it is already stored. elsewhere lists the
// stages whose start the object stores in other fields. The record of another deletion is removed.
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

// without returns a copy without the start times of the given stages.
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

// text returns the value of the annotation, empty while no stage has started or ended.
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

// canBegin reports whether start can be a start time of this deletion.
func (d Deletion) canBegin(start time.Time) bool {
	return !start.IsZero() && !start.Before(d.Requested.Add(-ClockTolerance))
}
