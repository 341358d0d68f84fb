package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

// partGVK is the kind that sets clone for each Machine in the histories with templates, and configGVK that of bootstrap objects where there
// are providers. Without these, the cloud makes the instances all the same: the object is only cloned, and deleted with its Machine.
func partGVK() schema.GroupVersionKind   { return fake.InfraMachineGVK(contract.V1Beta2) }
func configGVK() schema.GroupVersionKind { return fake.BootstrapConfigGVK(contract.V1Beta2) }

func templateOf(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix)
}

// cloned is a kind that sets clone, and where a Machine refers to its object.
type cloned struct {
	gvk  schema.GroupVersionKind
	path []string
}

// cloned are those of a history.
func (w *World) cloned() (all []cloned) {
	if w.parts {
		all = append(all, cloned{partGVK(), []string{"infrastructureRef"}})
	}
	if w.provided != nil {
		all = append(all, cloned{configGVK(), []string{"bootstrap", "configRef"}})
	}
	return all
}

// addCRDs puts CustomResourceDefinitions, which never change, into the cache of a process.
func (p *process) addCRDs(kinds ...schema.GroupVersionKind) {
	of := map[types.NamespacedName]*unstructured.Unstructured{}
	for _, gvk := range kinds {
		crd := fake.CRD(gvk, contract.V1Beta2)
		crd.SetResourceVersion("1")
		of[client.ObjectKeyFromObject(crd)] = crd
	}
	p.view.kinds[external.CRDGVK().GroupKind()] = &viewed{objects: of}
}

func (o *owner) templateName(revision int) string { return fmt.Sprintf("%s-%d", o.name, revision) }

// refer makes the spec of a Machine refer to the first templates.
func (o *owner) refer(spec map[string]any) {
	for _, c := range o.world.cloned() {
		ref := map[string]any{"apiGroup": c.gvk.Group, "kind": templateOf(c.gvk).Kind, "name": o.templateName(0)}
		fake.WithField(ref, c.path...)(&unstructured.Unstructured{Object: spec})
	}
}

// addTemplates creates the templates of a revision, which never change; one that exists stays. It does nothing in a history without.
func (o *owner) addTemplates(ctx context.Context, revision int) (err error) {
	for _, c := range o.world.cloned() {
		template := o.named()
		template.SetGroupVersionKind(templateOf(c.gvk))
		template.SetName(o.templateName(revision))
		fake.WithField(fmt.Sprintf("v1.36.%d", revision), "spec", "template", "spec", "version")(template)
		err = errors.Join(err, client.IgnoreAlreadyExists(o.world.store.Client().Create(ctx, template)))
	}
	return err
}

// removesPart is a step that deletes what was cloned for a Machine before the Machine is gone.
func removesPart(m *manager) machine.Step {
	return machine.Step{Name: "remove-part", On: engine.InDeletion, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		var err error
		if part := m.process.world.object(partGVK().Kind, s.State.Key.Namespace, s.State.Infrastructure.Name); part != nil {
			err = m.client.Delete(ctx, part.DeepCopy(), client.Preconditions{UID: new(part.GetUID())})
		}
		return machine.Result{}, client.IgnoreNotFound(err)
	}}
}

// madeOfOneTemplate is about a Machine that a process creates: people may give one another infrastructure object. The version is the
// difference between templates: labels of a set change in place.
func madeOfOneTemplate(w *World, e Write) error {
	if !w.parts || w.acting == nil || e.Before != nil || e.After.GetKind() != "Machine" || !ownedBySet(e.After) {
		return nil
	}
	vanishes := w.backups.restored || w.had(UserDeletesPart) || isMisplaced(e.After) // a person deletes copies
	for _, part := range w.refsOf(e.After) {
		switch {
		case part == nil && !vanishes:
			return fmt.Errorf("%s has no object that it refers to", e.After.GetName())
		case part == nil, w.provided != nil && w.had(UserStrips):
			// A ledger that is lost without any Machine begins anew, and finds what was made before under its first names.
		case versionOf(part) != versionOf(e.After):
			return fmt.Errorf("%s has the version %s, and its %s %s", e.After.GetName(), versionOf(e.After), part.GetKind(), versionOf(part))
		}
	}
	return nil
}

// refsOf are the objects that a Machine of a history with templates refers to; nil for one that is not there.
func (w *World) refsOf(m *unstructured.Unstructured) (all []*unstructured.Unstructured) {
	for _, c := range w.cloned() {
		name := textAt(m, slices.Concat([]string{"spec"}, c.path, []string{"name"})...)
		all = append(all, w.object(c.gvk.Kind, m.GetNamespace(), name))
	}
	return all
}

// changesRefused is a person who changes the template, in a history with templates, when a Machine was refused: what was made for it stays.
func (w *World) changesRefused(r Request) {
	if w.parts && !w.calm && r.Verb == "create" && r.Kind == "Machine" && w.has(UserRollsOut) && w.choices.pick(3) == 0 {
		w.happens(w.ctx, UserRollsOut)
	}
}
