package contract_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// deployed is a shape of deployments and their sets, with an object that says everything.
type deployed struct {
	deployments *contract.MachineDeploymentLayout
	sets        *contract.MachineSetLayout
	gvk         schema.GroupVersionKind
	full        string
	// madeOf and inPlace are changes of the template, by the key of the template's place: those need a new set, and these do not.
	madeOf, inPlace map[string]any
}

func (d deployed) maker() contract.MachineSetMaker {
	return contract.UnstructuredSetMaker(d.deployments, d.gvk, d.sets)
}

func deployedShapes() map[string]deployed {
	gvk := func(version string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "MachineSet"}
	}
	madeOf := map[string]any{"spec.template.spec.version": "v9.9.9", "spec.template.spec.failureDomain": "elsewhere",
		"spec.template.spec.bootstrap.dataSecretName": "other", "spec.template.spec.infrastructureRef.name": "other"}
	inPlace := map[string]any{"spec.template.metadata.labels.new": "label", "spec.template.metadata.annotations.new": "annotation",
		"spec.template.spec.taints": []any{map[string]any{"key": "new", "effect": "NoSchedule"}}}
	with := func(fields, more map[string]any) map[string]any {
		more = maps.Clone(more)
		maps.Copy(more, fields)
		return more
	}
	foreign := func(group string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "MachineSet"}
	}
	metadata := map[string]any{"spec.template.metadata.labels.new": "label", "spec.template.metadata.annotations.new": "annotation"}
	deployments := foreignMachineDeploymentCases()
	return map[string]deployed{
		"v1beta1": {contract.LayoutsOf(contract.V1Beta1).MachineDeployment, contract.LayoutsOf(contract.V1Beta1).MachineSet,
			gvk("v1beta1"), fullMachineDeploymentV1Beta1, madeOf,
			with(inPlace, map[string]any{"spec.minReadySeconds": int64(99), "spec.template.spec.nodeDrainTimeout": "1m39s",
				"spec.template.spec.infrastructureRef.apiVersion": "infrastructure.cluster.x-k8s.io/v9"})},
		"v1beta2": {contract.LayoutsOf(contract.V1Beta2).MachineDeployment, contract.LayoutsOf(contract.V1Beta2).MachineSet,
			gvk("v1beta2"), fullMachineDeploymentV1Beta2, madeOf,
			with(inPlace, map[string]any{"spec.template.spec.minReadySeconds": int64(99), "spec.deletion.order": "Newest",
				"spec.template.spec.deletion.nodeDrainTimeoutSeconds": int64(99)})},
		"Kubermatic": {contract.KubermaticLayouts().MachineDeployment, contract.KubermaticLayouts().MachineSet, foreign("cluster.k8s.io"),
			deployments[0].full,
			with(metadata, map[string]any{"spec.template.spec.versions.kubelet": "9.9.9", "spec.template.spec.taints": []any{}}),
			map[string]any{"spec.minReadySeconds": int64(99)}},
		"Gardener": {contract.GardenerLayouts().MachineDeployment, contract.GardenerLayouts().MachineSet, foreign("machine.sapcloud.io"),
			deployments[1].full,
			with(metadata, map[string]any{"spec.template.spec.class.name": "large"}),
			map[string]any{"spec.minReadySeconds": int64(99), "spec.template.spec.class.kind": "OtherClass",
				"spec.template.spec.drainTimeout": "1m39s", "spec.template.spec.healthTimeout": "99s",
				"spec.template.spec.nodeTemplate.metadata.labels.new": "label", "spec.template.spec.maxEvictRetries": int64(9)}},
	}
}

func setSeed() contract.MachineSetSeed {
	own := map[string]string{contract.TemplateHashLabel: "abc"}
	return contract.MachineSetSeed{Seed: contract.Seed{
		Key: types.NamespacedName{Namespace: "ns", Name: "workers-abc"}, Labels: map[string]string{"l": "1", contract.TemplateHashLabel: "abc"},
		Annotations: map[string]string{contract.RevisionAnnotation: "1"}, Finalizers: []string{"f"},
		Owners: []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "MachineDeployment", Name: "workers", UID: "u"}}},
		Replicas:       2,
		TemplateLabels: own, SelectorLabels: own,
	}
}

// changed returns the object with another value at a place.
func changed(t *testing.T, text, at string, value any) *unstructured.Unstructured {
	t.Helper()
	obj := parseObject(t, text)
	require.NoError(t, unstructured.SetNestedField(obj.Object, value, strings.Split(at, ".")...))
	return obj
}

func TestASetOfADeploymentHasItsTemplateAndALabelOfItsOwn(t *testing.T) {
	for name, shape := range deployedShapes() {
		t.Run(name, func(t *testing.T) {
			deployment := parseObject(t, shape.full)
			made, err := shape.maker().NewSet(deployment, setSeed())
			require.NoError(t, err)
			again, err := shape.maker().NewSet(deployment, setSeed())
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(made, again))
			var want contract.MachineDeploymentState
			var got contract.MachineSetState
			require.NoError(t, contract.Unstructured(shape.gvk, shape.deployments).Adapter.Read(deployment, &want))
			require.NoError(t, contract.Unstructured(shape.gvk, shape.sets).Adapter.Read(made, &got))
			seed := setSeed()
			require.Equal(t, seed.Key, got.Key)
			require.Equal(t, []any{seed.Labels, seed.Annotations, seed.Finalizers, seed.Owners},
				[]any{got.Labels, got.Annotations, got.Finalizers, got.OwnerReferences})
			require.Equal(t, int32(2), got.Replicas.Or(0))
			require.Equal(t, "abc", got.Template.Labels[contract.TemplateHashLabel])
			require.Equal(t, "abc", got.Selector.MatchLabels[contract.TemplateHashLabel])
			delete(got.Template.Labels, contract.TemplateHashLabel)
			delete(got.Selector.MatchLabels, contract.TemplateHashLabel)
			requireStates(t, want.Template, got.Template)
			requireStates(t, []any{want.Selector, want.ClusterName, want.DeletionOrder, want.MachineNaming},
				[]any{got.Selector, got.ClusterName, got.DeletionOrder, got.MachineNaming})
			require.Empty(t, cmp.Diff(parseJSON(t, shape.full), deployment.Object), "the deployment neither changes nor is shared")
		})
	}
}

func TestATemplateDiffersWhereMachinesAreMadeOfSomethingElse(t *testing.T) {
	for name, shape := range deployedShapes() {
		set, err := shape.maker().NewSet(parseObject(t, shape.full), setSeed())
		require.NoError(t, err)
		places, err := shape.maker().TemplateDiff(parseObject(t, shape.full), set)
		require.NoError(t, err)
		require.Empty(t, places, "a new set has the template of its deployment")
		for at, value := range shape.madeOf {
			t.Run(name+"/"+at, func(t *testing.T) {
				deployment := changed(t, shape.full, at, value)
				places, err := shape.maker().TemplateDiff(deployment, set)
				require.NoError(t, err)
				require.Len(t, places, 1)
				require.Contains(t, at, places[0])
				before := set.(*unstructured.Unstructured).DeepCopy()
				_, err = shape.maker().SyncSet(deployment, before, nil)
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(set, before), "what a machine is made of never changes in a set")
				require.NoError(t, shape.maker().CopyTemplate(set, deployment))
				require.Empty(t, cmp.Diff(parseJSON(t, shape.full), deployment.Object), "a rollback gives the deployment its template back")
			})
		}
	}
}

func TestSyncSetBringsWhatChangesWithoutARolloutAndRemovesWhatItGave(t *testing.T) {
	for name, shape := range deployedShapes() {
		first, err := shape.maker().NewSet(parseObject(t, shape.full), setSeed())
		require.NoError(t, err)
		for at, value := range shape.inPlace {
			t.Run(name+"/"+at, func(t *testing.T) {
				set, deployment := first.DeepCopyObject().(contract.Object), changed(t, shape.full, at, value)
				given, err := shape.maker().SyncSet(deployment, set, nil)
				require.NoError(t, err)
				places, err := shape.maker().TemplateDiff(deployment, set)
				require.NoError(t, err)
				require.Empty(t, places)
				wanted, err := shape.maker().NewSet(deployment, setSeed())
				require.NoError(t, err)
				if at != "spec.template.spec.infrastructureRef.apiVersion" {
					require.Empty(t, cmp.Diff(wanted, set), "it is as if it were made anew")
				}
				_, err = shape.maker().SyncSet(parseObject(t, shape.full), set, given)
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(first, set), "what was added goes again, and the label of the seed stays")
			})
		}
	}
}

func TestASetMakerRefusesWhatItCannotRead(t *testing.T) {
	maker, bad := deployedShapes()["v1beta2"].maker(), parseObject(t, `{"spec":{"template":{"metadata":{"labels":7},"spec":"text"}}}`)
	none := parseObject(t, `{"spec":{}}`)
	for name, call := range map[string]func(obj contract.Object) error{
		"NewSet":       func(obj contract.Object) error { _, err := maker.NewSet(obj, setSeed()); return err },
		"SyncSet":      func(obj contract.Object) error { _, err := maker.SyncSet(obj, none.DeepCopy(), nil); return err },
		"TemplateDiff": func(obj contract.Object) error { _, err := maker.TemplateDiff(obj, none); return err },
		"CopyTemplate": func(obj contract.Object) error { return maker.CopyTemplate(obj, none.DeepCopy()) },
	} {
		require.ErrorIs(t, call(&Server{}), contract.ErrOtherType, name)
		require.ErrorIs(t, call(bad), contract.ErrWrongType, name)
	}
	without := contract.UnstructuredSetMaker(&contract.MachineDeploymentLayout{}, schema.GroupVersionKind{}, &contract.MachineSetLayout{})
	_, err := without.TemplateDiff(none, none)
	require.ErrorContains(t, err, "MadeOf", "without it, no template would ever differ")
	require.ErrorContains(t, without.CopyTemplate(none, none), "MadeOf")
}

// Whatever two objects say: nothing panics, what is only read does not change, a new set makes the same Machines, and so does a deployment
// after a rollback.
func FuzzSetMaker(f *testing.F) {
	shapes := deployedShapes()
	for _, shape := range shapes {
		f.Add([]byte(shape.full), []byte(shape.full))
		f.Add([]byte(shape.full), []byte(`{"spec":{"selector":{"matchLabels":{"x":"y"}},"template":{"metadata":{"labels":{"x":"y"}}}}}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for name, shape := range shapes {
			deployment := &unstructured.Unstructured{Object: anyObject(first)}
			other, maker := &unstructured.Unstructured{Object: anyObject(second)}, shape.maker()
			before, beforeOther := deployment.DeepCopy(), other.DeepCopy()
			made, err := maker.NewSet(deployment, setSeed())
			if err == nil {
				places, err := maker.TemplateDiff(deployment, made)
				require.Empty(t, places, name)
				requireWrongType(t, err)
			}
			_, err = maker.TemplateDiff(deployment, other)
			requireWrongType(t, err)
			require.Empty(t, cmp.Diff(before.Object, deployment.Object))
			if maker.CopyTemplate(other, deployment) == nil {
				places, err := maker.TemplateDiff(deployment, other)
				require.Empty(t, places, name)
				requireWrongType(t, err)
			}
			_, _ = maker.SyncSet(other, deployment, []string{"labels.l", "taints", "minReady"})
			require.Empty(t, cmp.Diff(beforeOther.Object, other.Object))
		}
	})
}

// requireWrongType accepts an error about content of another type, or about an object without content.
func requireWrongType(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, contract.ErrWrongType) {
		require.ErrorIs(t, err, contract.ErrOtherType)
	}
}
