package machineset

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
)

// syncMachines brings what changes in place from the set's template to its Machines, and labels and annotations to what they refer
// to. Of a Machine in deletion only the fields of its spec change: its limits may be what holds it up.
func (s *Scope) syncMachines(ctx context.Context) error {
	now := step{known: true, generation: s.State.Generation, deployment: s.State.Labels[contract.DeploymentNameLabel]}
	var errs []error
	for _, m := range s.observed {
		k := s.mem.members[m.state.UID]
		if k == nil || k.inStep == now || s.env.frame.Writer.Behind(m.obj) {
			continue
		}
		err := s.syncMachine(ctx, m)
		if err == nil {
			k.inStep = now
		}
		if !external.SaysGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Scope) syncMachine(ctx context.Context, m *member) error {
	before, _ := readGiven(m.state)
	var u contract.MachineUpdate
	if m.state.Deleting.IsZero() {
		u.MetadataUpdate = metadataOf(m.state.Metadata, before, &s.State)
		if !changesNothing(u.MetadataUpdate) {
			for _, ref := range []contract.Ref{m.state.Bootstrap, m.state.Infrastructure} {
				if err := s.syncPart(ctx, ref, before); err != nil {
					return err
				}
			}
		}
	}
	// The maker knows the fields, the adapter the rest: both go into one patch.
	kind := s.env.kinds.Machine
	kind.Adapter = syncing{MachineAdapter: kind.Adapter, scope: s, member: m, before: before}
	contents, err := patch.Apply(kind, m.obj, u)
	if err != nil {
		return err
	}
	document := contents.Main()
	if document.Empty() {
		return nil
	}
	if err := s.env.frame.Writer.Send(ctx, m.obj, pass.NewObject(kind), document, false, false); err != nil {
		return fmt.Errorf("write %s %s: %w", kind.GVK.Kind, m.state.Key, err)
	}
	return nil
}

// syncing writes an update and what the template says, and records what the set gave.
type syncing struct {
	contract.MachineAdapter

	scope  *Scope
	member *member
	before given
}

// Write implements contract.Adapter.
func (s syncing) Write(obj contract.Object, u contract.MachineUpdate) error {
	fields, err := s.scope.env.kinds.Maker.SyncMachine(s.scope.Object, obj, s.before.Fields)
	if err != nil {
		return err
	}
	record := giving(&s.scope.State, fields)
	if !s.member.state.Deleting.IsZero() {
		record.Labels, record.Annotations = s.before.Labels, s.before.Annotations // they stay as they are
	}
	if text := record.text(); s.member.state.Annotations[GivenAnnotation] != text {
		annotations := map[string]contract.Change[string]{GivenAnnotation: contract.SetTo(text)}
		maps.Copy(annotations, u.Annotations)
		u.Annotations = annotations
	}
	return s.MachineAdapter.Write(obj, u)
}

// syncPart gives what a Machine refers to the labels and annotations of the template.
func (s *Scope) syncPart(ctx context.Context, ref contract.Ref, before given) error {
	found, err := s.env.frame.Tracker.Get(ctx, s.State.Key, ref)
	if err != nil {
		return err
	}
	switch found.Presence {
	case external.NotReferenced, external.Absent, external.KindMissing:
		return nil
	case external.Unread:
		if found.Problem != (external.Problem{}) && found.Problem.Reason != external.ReasonCacheNotSynced {
			return fmt.Errorf("read %s %s, which is to get labels and annotations: %s", ref.Kind, s.key(ref.Name), found.Problem.Message)
		}
		s.Requeue(found.RetryAfter)
		return fmt.Errorf("%w: %s %s could not be read yet", pass.ErrStale, ref.Kind, ref.Name)
	case external.Present:
	}
	var have contract.Metadata
	have.From(found.Object)
	u := metadataOf(have, before, &s.State)
	if changesNothing(u) || found.Deleting() {
		return nil
	}
	metadata := map[string]any{"uid": string(have.UID)}
	for name, changes := range map[string]map[string]contract.Change[string]{"labels": u.Labels, "annotations": u.Annotations} {
		if len(changes) > 0 {
			metadata[name] = merged(changes)
		}
	}
	written := &unstructured.Unstructured{}
	written.SetGroupVersionKind(found.GVK)
	written.SetNamespace(have.Key.Namespace)
	written.SetName(have.Key.Name)
	if err := s.env.frame.Writer.Patch(ctx, written, map[string]any{"metadata": metadata}, false); err != nil && !external.SaysGone(err) {
		return fmt.Errorf("write %s %s: %w", ref.Kind, have.Key, err)
	}
	return nil
}

// merged is what a merge patch says of changes.
func merged(changes map[string]contract.Change[string]) map[string]any {
	texts := make(map[string]any, len(changes))
	for key, change := range changes {
		texts[key] = nil
		if text, set := change.Value(); set {
			texts[key] = text
		}
	}
	return texts
}
