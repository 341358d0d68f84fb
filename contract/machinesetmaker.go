package contract

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MachineSetSeed is what the creator of a MachineSet of a deployment decides, in addition to the deployment. It is neither retained nor
// changed.
type MachineSetSeed struct {
	Seed

	Replicas int32
	// TemplateLabels are added to the labels of the template, and SelectorLabels to the selector. In both, the label distinguishes the
	// Machines of one set from those of another.
	TemplateLabels, SelectorLabels map[string]string
}

// MachineSetMaker makes the MachineSets of deployments of one shape, and compares the template of a set with that of its deployment. It
// handles only what depends on the shape; replicas, labels, annotations and owners are changed through Adapters. UnstructuredSetMaker
// returns one; write your own for Go types. Safe for concurrent use.
type MachineSetMaker interface {
	// NewSet returns a MachineSet with the template and the selector of the deployment and the additions of the seed. It does not change the
	// deployment, which may come from a cache, and shares no memory with it. Equal input gives equal sets.
	NewSet(deployment Object, seed MachineSetSeed) (Object, error)
	// SyncSet copies from the deployment to the set, which is the caller's copy, all fields that change without a rollout. It returns the
	// names of the fields that the deployment has. Names in given, which an earlier call returned, are removed from the set when the
	// deployment no longer has them. Fields of other writers, the labels of the seed and the deployment do not change.
	SyncSet(deployment, set Object, given []string) (now []string, err error)
	// TemplateDiff returns the paths, in order, at which the templates of the deployment and of the set differ in the machines that they make.
	// An empty result means that the set makes the same Machines. It changes neither object.
	TemplateDiff(deployment, set Object) ([]string, error)
	// CopyTemplate is for a rollback: it copies to the deployment, which is the caller's copy, the parts of the set's template that decide
	// which machine is made, so that TemplateDiff returns nothing. It does not change the set and shares no memory with it.
	CopyTemplate(set, deployment Object) error
}

// UnstructuredSetMaker returns the MachineSetMaker for unstructured deployments and sets in the shapes of layouts, with the template at
// spec.template in both. It retains the layouts. The gvk is that of the sets.
//
// MadeOf of the layout and the references decide which machine is made. References are compared by group, kind and name, so that another
// API version is no difference. Absent, null and empty are equal. A label in the set's selector that the deployment's selector lacks is
// ignored. The other labels and annotations of the template, the fields of SyncMachine, the deletion order and the naming of Machines
// change in place. Rule for Cluster API's shapes: version, bootstrap, infrastructureRef and failureDomain (its
// mdutil.MachineTemplateUpToDate).
//
// With a nil layout it returns nil, which reconcilers reject.
func UnstructuredSetMaker(deployment *MachineDeploymentLayout, gvk schema.GroupVersionKind, set *MachineSetLayout) MachineSetMaker {
	if deployment == nil || set == nil {
		return nil
	}
	return &unstructuredSetMaker{deployment: deployment, gvk: gvk, set: set, template: NewPath("spec", "template")}
}

type unstructuredSetMaker struct {
	deployment *MachineDeploymentLayout
	gvk        schema.GroupVersionKind
	set        *MachineSetLayout
	template   Path
}

// NewSet implements MachineSetMaker.
func (m *unstructuredSetMaker) NewSet(deployment Object, seed MachineSetSeed) (Object, error) {
	from, err := typed[*unstructured.Unstructured](deployment)
	if err != nil {
		return nil, err
	}
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetGroupVersionKind(m.gvk)
	seed.ApplyTo(made)
	if err := m.fill(made.Object, from.Object, seed); err != nil {
		return nil, about("", deployment, err)
	}
	return made, nil
}

func (m *unstructuredSetMaker) fill(made, from map[string]any, seed MachineSetSeed) error {
	for _, part := range [][2]Path{{m.template, m.template}, {m.deployment.Selector.path, m.set.Selector.path},
		{m.deployment.ClusterName.path, m.set.ClusterName.path}} {
		if err := copyContent(from, part[0], made, part[1]); err != nil {
			return err
		}
	}
	if _, err := m.sync(from, made, nil); err != nil {
		return err
	}
	w := exchange{obj: made, writes: true}
	put(&w, m.set.Replicas, SetTo(seed.Replicas))
	w.addTexts(m.set.Template.Labels.path, seed.TemplateLabels)
	w.addTexts(m.set.Selector.path.below("matchLabels"), seed.SelectorLabels)
	return w.err
}

// addTexts adds entries to a map of texts.
func (x *exchange) addTexts(at Path, texts map[string]string) {
	for key, text := range texts {
		if at.IsZero() {
			return
		}
		put(x, Field[string]{path: NewPath(append(at.Segments(), key)...)}, SetTo(text))
	}
}

// SyncSet implements MachineSetMaker.
func (m *unstructuredSetMaker) SyncSet(deployment, set Object, given []string) (now []string, err error) {
	from, into, err := bothTyped[*unstructured.Unstructured, *unstructured.Unstructured](deployment, set)
	if err != nil {
		return nil, err
	}
	now, err = m.sync(from.Object, into.Object, given)
	return now, about("", set, err)
}

func (m *unstructuredSetMaker) sync(from, into map[string]any, given []string) (now []string, err error) {
	of, in := &m.deployment.ReplicatedLayout, &m.set.ReplicatedLayout
	fields := append(specInPlace(&of.Template.MachineSpecLayout, &in.Template.MachineSpecLayout),
		contentInPlace("deletionOrder", of.DeletionOrder.path, in.DeletionOrder.path, isEmptyText),
		contentInPlace("machineNaming", of.MachineNaming.path, in.MachineNaming.path, isEmptyText))
	labels, err := entriesInPlace("labels.", of.Template.Labels.path, in.Template.Labels.path, from, given)
	annotations, err2 := entriesInPlace("annotations.", of.Template.Annotations.path, in.Template.Annotations.path, from, given)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	fields = slices.Concat(fields, labels, annotations)
	return syncFields(fields, of.Template.MadeOf, from, into, given)
}

// TemplateDiff implements MachineSetMaker.
func (m *unstructuredSetMaker) TemplateDiff(deployment, set Object) ([]string, error) {
	of, in, err := bothTyped[*unstructured.Unstructured, *unstructured.Unstructured](deployment, set)
	if err != nil {
		return nil, err
	}
	places, err := templateDiff(&m.deployment.ReplicatedLayout, of.Object, &m.set.ReplicatedLayout, in.Object)
	if err != nil {
		return nil, fmt.Errorf("compare the templates of %s/%s and %s: %w", deployment.GetNamespace(), deployment.GetName(), set.GetName(), err)
	}
	return places, nil
}

// CopyTemplate implements MachineSetMaker.
func (m *unstructuredSetMaker) CopyTemplate(set, deployment Object) error {
	of, in, err := bothTyped[*unstructured.Unstructured, *unstructured.Unstructured](deployment, set)
	if err == nil {
		err = copyTemplate(&m.set.ReplicatedLayout, in.Object, &m.deployment.ReplicatedLayout, of.Object)
	}
	if err != nil {
		return fmt.Errorf("copy the template of %s to %s/%s: %w", set.GetName(), deployment.GetNamespace(), deployment.GetName(), err)
	}
	return nil
}
