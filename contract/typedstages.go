package contract

import (
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// StagesFromAnnotations fills how far a deletion is (PreDrainStarted, DrainStarted, VolumeDetachStarted, PreTerminateStarted,
// DrainedNode and VolumesDetachedNode) from the annotations of this module. It is for the read function of a Go type without fields
// for that (NewTyped), after Metadata.From; MachineUpdate.StagesInAnnotations writes it. A text that is no time is an error that
// matches ErrWrongType.
func (s *MachineState) StagesFromAnnotations() error {
	var errs []error
	at := func(key string) time.Time {
		text := s.Annotations[key]
		if text == "" {
			return time.Time{}
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			errs = append(errs, unreadableTime(NewPath("metadata", "annotations", key)))
		}
		return t.UTC()
	}
	s.PreDrainStarted, s.DrainStarted = at(PreDrainStartedAnnotation), at(DrainStartedAnnotation)
	s.VolumeDetachStarted, s.PreTerminateStarted = at(VolumeDetachStartedAnnotation), at(PreTerminateStartedAnnotation)
	s.DrainedNode = types.UID(s.Annotations[DrainedAnnotation])
	s.VolumesDetachedNode = types.UID(s.Annotations[VolumesDetachedAnnotation])
	return errors.Join(errs...)
}

// StagesInAnnotations returns the update of the metadata with how far a deletion is in annotations of this module, to be applied in
// the place of u.MetadataUpdate. It does not change the update.
func (u MachineUpdate) StagesInAnnotations() MetadataUpdate {
	texts := map[string]Change[string]{}
	started := func(key string, c Change[time.Time]) {
		if t, set := c.Value(); set && !t.IsZero() {
			texts[key] = SetTo(rfc3339(t))
		} else if set || c.Clears() {
			texts[key] = Cleared[string]()
		}
	}
	started(PreDrainStartedAnnotation, u.PreDrainStarted)
	started(DrainStartedAnnotation, u.DrainStarted)
	started(VolumeDetachStartedAnnotation, u.VolumeDetachStarted)
	started(PreTerminateStartedAnnotation, u.PreTerminateStarted)
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
