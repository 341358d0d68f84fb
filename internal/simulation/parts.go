package simulation

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

// MadeOfOneTemplate is the invariant about what sets clone for Machines, which is checked in histories with templates.
const MadeOfOneTemplate = "a Machine and its infrastructure object are made from one template"

// partGVK is the kind that sets clone for each Machine in the histories with templates. The cloud makes the instances all the same: the
// object is there to be cloned, and goes with its Machine.
func partGVK() schema.GroupVersionKind { return fake.InfraMachineGVK(contract.V1Beta2) }

func partTemplateGVK() schema.GroupVersionKind {
	return partGVK().GroupVersion().WithKind(partGVK().Kind + contract.TemplateSuffix)
}

// partKinds are the kinds of templates and of what is cloned from them.
func partKinds() []fake.ServedKind {
	return []fake.ServedKind{{GVK: partTemplateGVK(), Status: true}, {GVK: partGVK(), Status: true}}
}

// configKinds are those of bootstrap objects.
func configKinds() []fake.ServedKind {
	return []fake.ServedKind{{GVK: configTemplateGVK(), Status: true}, {GVK: configGVK(), Status: true}}
}

// partsRef and configsRef refer to the templates of a revision.
func (o *owner) partsRef(revision int) map[string]any { return o.refTo(partTemplateGVK(), revision) }

func (o *owner) configsRef(revision int) map[string]any {
	return o.refTo(configTemplateGVK(), revision)
}

func (o *owner) refTo(gvk schema.GroupVersionKind, revision int) map[string]any {
	return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": o.templateName(revision)}
}

func (o *owner) templateName(revision int) string { return fmt.Sprintf("%s-%d", o.name, revision) }

// addTemplates creates the templates of a revision, which never change; one that exists stays. It does nothing in a history without.
func (o *owner) addTemplates(ctx context.Context, revision int) error {
	var err error
	if o.world.parts {
		err = o.addTemplate(ctx, partTemplateGVK(), revision)
	}
	if o.world.provided != nil {
		err = errors.Join(err, o.addTemplate(ctx, configTemplateGVK(), revision))
	}
	return err
}

func (o *owner) addTemplate(ctx context.Context, gvk schema.GroupVersionKind, revision int) error {
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"version": fmt.Sprintf("v1.36.%d", revision)},
	}}}}
	template.SetGroupVersionKind(gvk)
	template.SetNamespace(o.namespace)
	template.SetName(o.templateName(revision))
	return client.IgnoreAlreadyExists(o.world.store.Client().Create(ctx, template))
}

// removesPart is a step that deletes what was cloned for a Machine before the Machine goes.
func removesPart(c client.Client) machine.Step {
	return machine.Step{Name: "remove-part", On: engine.InDeletion, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		if s.State.Infrastructure.IsZero() {
			return machine.Result{}, nil
		}
		part := &unstructured.Unstructured{}
		part.SetGroupVersionKind(partGVK())
		err := c.Get(ctx, client.ObjectKey{Namespace: s.State.Key.Namespace, Name: s.State.Infrastructure.Name}, part)
		if err == nil {
			err = c.Delete(ctx, part, client.Preconditions{UID: new(part.GetUID())})
		}
		return machine.Result{}, client.IgnoreNotFound(err)
	}}
}

// madeOfOneTemplate is about a Machine that a process creates: people may give one another infrastructure object. The version tells the
// templates apart: labels of a set change in place.
func madeOfOneTemplate(w *World, e Write) error {
	if !w.parts || w.acting == nil || e.Before != nil || e.After.GetKind() != "Machine" || !ownedBySet(e.After) {
		return nil
	}
	version := versionOf(e.After)
	for _, ref := range w.refsOf(e.After) {
		switch part := w.object(ref.kind, e.After.GetNamespace(), ref.name); {
		case part == nil && !w.partsVanish():
			return fmt.Errorf("%s has no %s", e.After.GetName(), ref.kind)
		case part == nil, w.provided != nil && w.seen[faultPrefix+string(UserStrips)] > 0:
			// A ledger that is lost without any Machine begins anew, and finds what was made before under its first names.
		case versionOf(part) != version:
			return fmt.Errorf("%s has the version %s, and its %s %s", e.After.GetName(), version, ref.kind, versionOf(part))
		}
	}
	return nil
}

// partsVanish reports whether a person may have deleted what was made for a Machine before it was, or has restored what was there before.
func (w *World) partsVanish() bool {
	return w.backups.restored || w.seen[faultPrefix+string(UserDeletesPart)] > 0
}

// partRef is the name of an object that a Machine refers to, and its kind.
type partRef struct{ kind, name string }

// refsOf are the objects that a Machine of a history with templates refers to.
func (w *World) refsOf(m *unstructured.Unstructured) []partRef {
	all := []partRef{{partGVK().Kind, textAt(m, "spec", "infrastructureRef", "name")}}
	if w.provided != nil {
		all = append(all, partRef{configGVK().Kind, textAt(m, "spec", "bootstrap", "configRef", "name")})
	}
	return all
}

// changesRefused is a person who changes the template, in a history with templates, when a Machine was refused: what was made for it stays.
func (w *World) changesRefused(r Request) {
	if w.parts && !w.calm && r.Verb == "create" && r.Kind == "Machine" && w.has(UserRollsOut) && w.choices.pick(3) == 0 {
		w.happens(w.ctx, UserRollsOut)
	}
}
