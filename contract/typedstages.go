package contract

import (
	"errors"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StagesFromAnnotations fills how far a deletion is (DrainStarted, VolumeDetachStarted, PreTerminateStarted,
// DrainedNode and VolumesDetachedNode) from the annotations of this module. It is for the read function of a Go type without fields
// for that (NewTyped), after Metadata.From; MachineUpdate.StagesInAnnotations writes it. A text that is no time is an error that
// matches ErrWrongType.
func (s *MachineState) StagesFromAnnotations() error {
	s.DrainStarted, s.VolumeDetachStarted, s.PreTerminateStarted = time.Time{}, time.Time{}, time.Time{}
	s.DrainedNode = types.UID(s.Annotations[DrainedAnnotation])
	s.VolumesDetachedNode = types.UID(s.Annotations[VolumesDetachedAnnotation])
	return s.startsFrom(s.Annotations)
}

// startsFrom fills in the starts of stages that the state does not have yet.
func (s *MachineState) startsFrom(annotations map[string]string) error {
	var errs []error
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
			errs = append(errs, unreadableTime(NewPath("metadata", "annotations", start.key)))
			continue
		}
		*start.at = t.UTC()
	}
	return errors.Join(errs...)
}

// stageStart is what an update says of the start of a stage, and the annotation that holds it where there is no other place.
type stageStart struct {
	key  string
	says Change[time.Time]
}

func (u *MachineUpdate) starts() [3]stageStart {
	return [...]stageStart{
		{DrainStartedAnnotation, u.DrainStarted},
		{VolumeDetachStartedAnnotation, u.VolumeDetachStarted}, {PreTerminateStartedAnnotation, u.PreTerminateStarted},
	}
}

// StagesInAnnotations returns the update of the metadata with how far a deletion is in annotations of this module, to be applied in
// the place of u.MetadataUpdate. It does not change the update.
func (u MachineUpdate) StagesInAnnotations() MetadataUpdate {
	texts := map[string]Change[string]{}
	for _, start := range u.starts() {
		if t, set := start.says.Value(); set && !t.IsZero() {
			texts[start.key] = SetTo(rfc3339(t))
		} else if set || start.says.Clears() {
			texts[start.key] = Cleared[string]()
		}
	}
	done := func(key string, c Change[types.UID]) {
		if uid, set := c.Value(); set && uid != "" {
			texts[key] = SetTo(string(uid))
		} else if set || c.Clears() {
			texts[key] = Cleared[string]()
		}
	}
	done(DrainedAnnotation, u.DrainedNode)
	done(VolumesDetachedAnnotation, u.VolumesDetachedNode)
	if len(texts) == 0 {
		return u.MetadataUpdate
	}
	maps.Copy(texts, u.Annotations)
	metadata := u.MetadataUpdate
	metadata.Annotations = texts
	return metadata
}

// keepStarts puts the starts of stages into annotations that an object, to which the update was written, does not give back. have is
// what it gives back.
func (u *MachineUpdate) keepStarts(obj metav1.Object, have *MachineState) {
	kept := map[string]time.Time{
		DrainStartedAnnotation:        have.DrainStarted,
		VolumeDetachStartedAnnotation: have.VolumeDetachStarted, PreTerminateStartedAnnotation: have.PreTerminateStarted,
	}
	texts := map[string]Change[string]{}
	for _, start := range u.starts() {
		t, set := start.says.Value()
		switch {
		case set && !t.IsZero() && rfc3339(kept[start.key]) != rfc3339(t):
			texts[start.key] = SetTo(rfc3339(t))
		case start.says.Clears() || (set && t.IsZero()):
			texts[start.key] = Cleared[string]()
		}
	}
	MetadataUpdate{Annotations: texts}.ApplyTo(obj)
}

// startsStage reports whether an update says anything of the start of a stage.
func (u *MachineUpdate) startsStage() bool {
	return !u.DrainStarted.Keeps() || !u.VolumeDetachStarted.Keeps() || !u.PreTerminateStarted.Keeps()
}
