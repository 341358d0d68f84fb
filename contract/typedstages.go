package contract

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// forgetStages takes away how far a deletion is.
func (s *MachineState) forgetStages() {
	s.DrainStarted, s.VolumeDetachStarted, s.PreTerminateStarted = time.Time{}, time.Time{}, time.Time{}
	s.DrainedNode, s.VolumesDetachedNode = "", ""
}

// stagesFrom fills in how far a deletion is where the state does not have it yet, from annotations of this module.
func (s *MachineState) stagesFrom(annotations map[string]string) error {
	for _, start := range [...]struct {
		key string
		at  *time.Time
	}{
		{DrainStartedAnnotation, &s.DrainStarted},
		{VolumeDetachStartedAnnotation, &s.VolumeDetachStarted}, {PreTerminateStartedAnnotation, &s.PreTerminateStarted},
	} {
		text := annotations[start.key]
		if text == "" || !start.at.IsZero() {
			continue
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return unreadableTime(NewPath("metadata", "annotations", start.key))
		}
		*start.at = t.UTC()
	}
	s.DrainedNode = cmp.Or(s.DrainedNode, types.UID(annotations[DrainedAnnotation]))
	s.VolumesDetachedNode = cmp.Or(s.VolumesDetachedNode, types.UID(annotations[VolumesDetachedAnnotation]))
	return nil
}

// stages is what an update says of how far a deletion is, as changes of annotations, but for what is kept elsewhere. have is what the
// object gives back that the update was written to.
func (u *MachineUpdate) stages(have *MachineState) map[string]Change[string] {
	texts := map[string]Change[string]{}
	keep := func(key, have string, c Change[string]) {
		if text, set := c.Value(); c.Clears() || set && text != have {
			texts[key] = c
		}
	}
	start := func(key string, have time.Time, c Change[time.Time]) {
		keep(key, rfc3339(have), mapped(orClear(c), rfc3339))
	}
	start(DrainStartedAnnotation, have.DrainStarted, u.DrainStarted)
	start(VolumeDetachStartedAnnotation, have.VolumeDetachStarted, u.VolumeDetachStarted)
	start(PreTerminateStartedAnnotation, have.PreTerminateStarted, u.PreTerminateStarted)
	keep(DrainedAnnotation, string(have.DrainedNode), orClear(mapped(u.DrainedNode, uidText)))
	keep(VolumesDetachedAnnotation, string(have.VolumesDetachedNode), orClear(mapped(u.VolumesDetachedNode, uidText)))
	return texts
}

func uidText(uid types.UID) string { return string(uid) }

// hasStages reports whether an update says anything of how far a deletion is.
func (u *MachineUpdate) hasStages() bool {
	return !u.DrainStarted.Keeps() || !u.VolumeDetachStarted.Keeps() || !u.PreTerminateStarted.Keeps() ||
		!u.DrainedNode.Keeps() || !u.VolumesDetachedNode.Keeps()
}
