package machineset

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
)

// syncMachines brings what changes in place from the set's template to its Machines, and labels and annotations to what they refer
// to. Of a Machine in deletion only the fields of its spec change: its limits may be what holds it up.
func (p *pass) syncMachines(ctx context.Context) error {
	now := step{known: true, generation: p.state.Generation, deployment: p.state.Labels[contract.DeploymentNameLabel]}
	var errs []error
	for _, m := range p.observed {
		k := p.mem().members[m.state.UID]
		if k == nil || k.inStep == now || p.env.writer.Behind(m.obj) {
			continue
		}
		err := p.syncMachine(ctx, m)
		if err == nil {
			k.inStep = now
		}
		if !external.SaysGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *pass) syncMachine(ctx context.Context, m *member) error {
	before, _ := readGiven(m.state)
	var u contract.MachineUpdate
	if m.state.Deleting.IsZero() {
		u.MetadataUpdate = metadataOf(m.state.Metadata, before, &p.state)
		if !changesNothing(u.MetadataUpdate) {
			for _, ref := range []contract.Ref{m.state.Bootstrap, m.state.Infrastructure} {
				if err := p.syncPart(ctx, ref, before); err != nil {
					return err
				}
			}
		}
	}
	// The maker knows the fields, the adapter the rest: both go into one patch.
	kind := p.env.kinds.Machine
	kind.Adapter = syncing{MachineAdapter: kind.Adapter, pass: p, member: m, before: before}
	contents, err := patch.Apply(kind, m.obj, u)
	if err != nil {
		return err
	}
	document := contents.Main()
	if document.Empty() {
		return nil
	}
	if err := p.env.writer.Send(ctx, m.obj, newObject(kind), document, false, false); err != nil {
		return fmt.Errorf("write %s %s: %w", kind.GVK.Kind, m.state.Key, err)
	}
	return nil
}

// syncing writes an update and what the template says, and records what the set gave.
type syncing struct {
	contract.MachineAdapter

	pass   *pass
	member *member
	before given
}

// Write implements contract.Adapter.
func (s syncing) Write(obj contract.Object, u contract.MachineUpdate) error {
	fields, err := s.pass.env.kinds.Maker.SyncMachine(s.pass.set, obj, s.before.Fields)
	if err != nil {
		return err
	}
	record := giving(&s.pass.state, fields)
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
func (p *pass) syncPart(ctx context.Context, ref contract.Ref, before given) error {
	found, err := p.env.tracker.Get(ctx, p.state.Key, ref)
	if err != nil {
		return err
	}
	switch found.Presence {
	case external.NotReferenced, external.Absent, external.KindMissing:
		return nil
	case external.Unread:
		if found.Problem != (external.Problem{}) && found.Problem.Reason != external.ReasonCacheNotSynced {
			return fmt.Errorf("read %s %s, which is to get labels and annotations: %s", ref.Kind, p.key(ref.Name), found.Problem.Message)
		}
		p.requeue(found.RetryAfter)
		return fmt.Errorf("%w: %s %s could not be read yet", errStale, ref.Kind, ref.Name)
	case external.Present:
	}
	var have contract.Metadata
	have.From(found.Object)
	u := metadataOf(have, before, &p.state)
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
	if err := p.env.writer.Patch(ctx, written, map[string]any{"metadata": metadata}, false); err != nil && !external.SaysGone(err) {
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
