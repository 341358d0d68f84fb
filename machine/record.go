package machine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// begins is when a stage of the deletion began, zero before.
func (s *Scope) begins(stage string) time.Time { return s.deletion.Stages[stage].Start }

// begin records the start of a stage, once, and reports whether it had not been recorded before. The limit of the stage counts from there,
// so it is written in this pass.
func (s *Scope) begin(stage string) bool {
	if !s.deletion.Begin(stage, s.Now) {
		return false
	}
	s.urgent = true
	s.recordDeletion()
	return true
}

// end records that a stage has ended for the Node with this UID. In one pass several are one write.
func (s *Scope) end(stage string, node types.UID) {
	if s.deletion.End(stage, node, s.Now) {
		s.ended = append(s.ended, stage)
		s.recordDeletion()
	}
}

// recordDeletion decides what the Machine stores of its deletion: nothing while it is not being deleted, and nothing of another deletion,
// which comes from a backup that was made during one. A kind with fields for the starts of Cluster API has them there, where its
// controller looks for them.
func (s *Scope) recordDeletion() {
	for _, of := range []struct {
		stage string
		have  *time.Time
		into  *contract.Change[time.Time]
	}{
		{contract.StageDrain, &s.State.DrainStarted, &s.Update.DrainStarted},
		{contract.StageVolumes, &s.State.VolumeDetachStarted, &s.Update.VolumeDetachStarted},
	} {
		if begins := s.begins(of.stage); !begins.Equal(*of.have) {
			change(of.have, begins, of.into)
		}
	}
	for key, to := range s.deletion.Changes(s.State.Annotations, s.env.startsElsewhere...) {
		s.ChangeAnnotation(key, to)
	}
}

// startsElsewhere returns the stages whose starts a kind stores in fields of its own.
func startsElsewhere(kind contract.Kind) []string {
	missing, err := contract.CheckKind(kind)
	if err != nil {
		return nil // they are stored twice
	}
	var stages []string
	for _, of := range []struct{ member, stage string }{
		{"DrainStarted", contract.StageDrain}, {"VolumeDetachStarted", contract.StageVolumes},
	} {
		if !slices.ContainsFunc(missing, func(f contract.Forgotten) bool { return f.Member == of.member }) {
			stages = append(stages, of.stage)
		}
	}
	return stages
}
