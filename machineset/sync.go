package machineset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// syncing writes an update and the values of the template, and records what the set gave.
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

// merged returns changes as a merge patch.
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

// GivenAnnotation of a Machine records what its set gave it, so that a value that the set's template no longer has is removed, and values
// of other writers stay. It holds JSON with the labels, the keys of the annotations, and the names of other fields.
const GivenAnnotation = "machinist.dev/from-set"

// given is what a set gave a Machine.
type given struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations []string          `json:"annotations,omitempty"`
	Fields      []string          `json:"fields,omitempty"`
}

// readGiven reads a record; without a readable one nothing is known, and nothing is removed.
func readGiven(m *contract.MachineState) (given, bool) {
	text, found := m.Annotations[GivenAnnotation]
	if !found {
		return given{}, false
	}
	var g given
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return given{}, false
	}
	return g, true
}

func givenLabels(m *contract.MachineState) (map[string]string, bool) {
	g, known := readGiven(m)
	return g.Labels, known && g.Labels != nil
}

// text returns the record. Equal records give equal texts.
func (g given) text() string {
	text, err := json.Marshal(g)
	if err != nil {
		return "" // texts always have a text
	}
	return string(text)
}

// giving returns the record of what a set gives to its Machines, with its lists sorted.
func giving(set *contract.MachineSetState, fields []string) given {
	return given{
		Labels: machineLabels(set), Annotations: slices.Sorted(maps.Keys(set.Template.Annotations)), Fields: slices.Sorted(slices.Values(fields)),
	}
}

// metadataOf returns the changes of the labels and annotations of a Machine, or of an object that it refers to: the values of the set are
// added, and values that the set gave before and no longer has are removed.
func metadataOf(have contract.Metadata, before given, set *contract.MachineSetState) contract.MetadataUpdate {
	var u contract.MetadataUpdate
	change := func(into *map[string]contract.Change[string], key string, to contract.Change[string]) {
		if *into == nil {
			*into = map[string]contract.Change[string]{}
		}
		(*into)[key] = to
	}
	sync := func(into *map[string]contract.Change[string], have, want map[string]string, gave []string) {
		for key, value := range want {
			if got, found := have[key]; !found || got != value {
				change(into, key, contract.SetTo(value))
			}
		}
		for _, key := range gave {
			_, wanted := want[key]
			if _, found := have[key]; found && !wanted {
				change(into, key, contract.Cleared[string]())
			}
		}
	}
	sync(&u.Labels, have.Labels, machineLabels(set), slices.Collect(maps.Keys(before.Labels)))
	sync(&u.Annotations, have.Annotations, set.Template.Annotations, before.Annotations)
	return u
}

func changesNothing(u contract.MetadataUpdate) bool {
	return u.Finalizers.Keeps() && u.OwnerReferences.Keeps() && len(u.Labels) == 0 && len(u.Annotations) == 0
}
