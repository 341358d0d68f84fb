package simulation

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
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

// partsRef refers to the template of a revision.
func partsRef(revision int) map[string]any {
	return map[string]any{"apiGroup": partTemplateGVK().Group, "kind": partTemplateGVK().Kind, "name": partTemplateName(revision)}
}

func partTemplateName(revision int) string { return fmt.Sprintf("%s-%d", RootName, revision) }

// addPartTemplate creates the template of a revision, which never changes; one that exists stays. It does nothing in a history without.
func (w *World) addPartTemplate(ctx context.Context, revision int) error {
	if !w.parts {
		return nil
	}
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"version": fmt.Sprintf("v1.36.%d", revision)},
	}}}}
	template.SetGroupVersionKind(partTemplateGVK())
	template.SetNamespace(namespace)
	template.SetName(partTemplateName(revision))
	err := w.store.Client().Create(ctx, template)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// removesPart is a step that deletes what was cloned for a Machine before the Machine goes.
func removesPart(m Manager) machine.Step {
	return machine.Step{Name: "remove-part", On: pass.InDeletion, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		if s.State.Infrastructure.IsZero() {
			return machine.Result{}, nil
		}
		part := &unstructured.Unstructured{}
		part.SetGroupVersionKind(partGVK())
		part.SetNamespace(s.State.Key.Namespace)
		part.SetName(s.State.Infrastructure.Name)
		return machine.Result{}, client.IgnoreNotFound(m.Ports.Client.Delete(ctx, part))
	}}
}

// withParts adds that step in the histories with templates.
func withParts(m Manager, steps []machine.Step, err error) ([]machine.Step, error) {
	if err != nil || !m.process.world.parts {
		return steps, err
	}
	return pass.InsertBefore(steps, machine.StepRemoveFinalizer, removesPart(m))
}

// madeOfOneTemplate is about a Machine that a process creates: people may give one another infrastructure object. The version tells the
// templates apart: labels of a set change in place.
func madeOfOneTemplate(w *World, e Write) error {
	if !w.parts || w.acting == nil || e.Before != nil || e.After.GetKind() != "Machine" || !ownedBySet(e.After) {
		return nil
	}
	name, _, _ := unstructured.NestedString(e.After.Object, "spec", "infrastructureRef", "name")
	part := w.object(partGVK().Kind, namespace, name)
	if part == nil {
		return errors.New(e.After.GetName() + " has no infrastructure object")
	}
	version, _, _ := unstructured.NestedString(e.After.Object, "spec", "version")
	if made, _, _ := unstructured.NestedString(part.Object, "spec", "version"); made != version {
		return fmt.Errorf("%s has the version %s, and its infrastructure object %s", e.After.GetName(), version, made)
	}
	return nil
}

// changesRefused is a person who changes the template, in a history with templates, when a Machine was refused: what was made for it stays.
func (w *World) changesRefused(r Request) {
	if w.parts && !w.calm && r.Verb == "create" && r.Kind == "Machine" && w.has(UserRollsOut) && w.choices.pick(3) == 0 {
		w.seen[faultPrefix+string(UserRollsOut)]++
		w.rollsOut(w.ctx)
	}
}
