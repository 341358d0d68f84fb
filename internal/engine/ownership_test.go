package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

func TestAMachineTakesControlWithoutTouchingOtherOwners(t *testing.T) {
	me := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: "m-uid",
		Controller: new(true), BlockOwnerDeletion: new(true)}
	older := me
	older.APIVersion = "cluster.x-k8s.io/v1beta1"
	set := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachineSet", Name: "s", UID: "s-uid", Controller: new(true)}
	cluster := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "c", UID: "c-uid"}
	stranger := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Robot", Name: "r", UID: "r-uid", Controller: new(true)}
	restored, namesake := me, me // from a backup, and of another group
	restored.UID, namesake.UID, namesake.APIVersion = "from-before", "from-before", "example.com/v1"
	foreignSet := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "MachineSet", Name: "s", UID: "s-uid", Controller: new(true)}

	for name, tc := range map[string]struct {
		reason  string
		have    []metav1.OwnerReference
		want    []metav1.OwnerReference
		changed bool
		foreign string
	}{
		"no one owns it":           {want: []metav1.OwnerReference{me}, changed: true},
		"it is ours":               {have: []metav1.OwnerReference{me}, want: []metav1.OwnerReference{me}},
		"ours at an older version": {have: []metav1.OwnerReference{older}, want: []metav1.OwnerReference{me}, changed: true},
		"the set that created it gives it up": {
			have: []metav1.OwnerReference{set}, want: []metav1.OwnerReference{me}, changed: true},
		"an owner that is no controller stays": {
			have: []metav1.OwnerReference{cluster}, want: []metav1.OwnerReference{cluster, me}, changed: true},
		"order is no difference worth a write": {
			have: []metav1.OwnerReference{cluster, me}, want: []metav1.OwnerReference{cluster, me}},
		"order is no difference in the other direction": {
			have: []metav1.OwnerReference{me, cluster}, want: []metav1.OwnerReference{me, cluster}},
		"ours from before a restore": {
			have: []metav1.OwnerReference{restored, cluster}, want: []metav1.OwnerReference{me, cluster}, changed: true},
		"ours, beside one from before a restore": {
			have: []metav1.OwnerReference{cluster, restored, me}, want: []metav1.OwnerReference{cluster, me}, changed: true},
		"a namesake of another group is another's": {have: []metav1.OwnerReference{namesake}, foreign: "m"},
		"another controller is a conflict":         {have: []metav1.OwnerReference{stranger}, foreign: "r"},
		"a set of another group is another's":      {have: []metav1.OwnerReference{foreignSet}, foreign: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed, foreign := Own(tc.have, me, func(ref metav1.OwnerReference) bool {
				return ref.Kind == "MachineSet" && Group(ref.APIVersion) == "cluster.x-k8s.io"
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if changed != tc.changed {
				t.Errorf("changed: want %v, got %v", tc.changed, changed)
			}
			if name := ptr.Deref(foreign, metav1.OwnerReference{}).Name; name != tc.foreign {
				t.Errorf("foreign: want %q, got %q", tc.foreign, name)
			}
		})
	}
}

func TestAnOrderOfOwnersIsNeverWritten(t *testing.T) {
	t.Parallel()
	a := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "a"}
	b := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "b", UID: "b"}
	s := &Scope[contract.MachineState, contract.MachineUpdate]{}
	s.State.OwnerReferences = []metav1.OwnerReference{a, b}
	s.SetOwnerReferences([]metav1.OwnerReference{b, a})
	if !s.Update.OwnerReferences.Keeps() {
		t.Error("the same owners in another order are a change")
	}
	s.SetOwnerReferences([]metav1.OwnerReference{b})
	if s.Update.OwnerReferences.Keeps() {
		t.Error("one owner less is no change")
	}
}

func TestOwnershipIsOnePatchOrNone(t *testing.T) {
	owners := []metav1.OwnerReference{{Kind: "Machine", Name: "m"}}
	labelled := map[string]string{contract.ClusterNameLabel: "demo"}
	for name, tc := range map[string]struct {
		labels  map[string]string
		changed bool
		cluster string
		want    map[string]any
	}{
		"all is there":         {labels: labelled, cluster: "demo", want: map[string]any{}},
		"no cluster, no label": {want: map[string]any{}},
		"the owner is missing": {labels: labelled, changed: true, cluster: "demo",
			want: map[string]any{"ownerReferences": owners}},
		"the label is missing": {cluster: "demo", want: map[string]any{"labels": map[string]any{contract.ClusterNameLabel: "demo"}}},
		"both are missing, once": {changed: true, cluster: "demo", want: map[string]any{
			"ownerReferences": owners, "labels": map[string]any{contract.ClusterNameLabel: "demo"}}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &metav1.ObjectMeta{Labels: tc.labels}
			if diff := cmp.Diff(tc.want, ownershipPatch(obj, owners, tc.changed, tc.cluster)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAMachineIsAdoptedUnlessAnotherLooksAfterItOrWill(t *testing.T) {
	t.Parallel()
	cluster := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "demo", UID: "u"}
	older, restored, namesake := cluster, cluster, cluster
	older.APIVersion, restored.UID, namesake.Name = "cluster.x-k8s.io/v1alpha4", "from-before", "another"
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "o"}
	controller := other
	controller.Controller = new(true)
	type owners = []metav1.OwnerReference
	label := func(key string) map[string]string { return map[string]string{key: "x"} }
	for name, tc := range map[string]struct {
		labels     map[string]string
		have, want owners
		changed    bool
	}{
		"no one owns it":                           {want: owners{cluster}, changed: true},
		"an owner that is no controller stays":     {have: owners{other}, want: owners{other, cluster}, changed: true},
		"the Cluster owns it":                      {have: owners{cluster}, want: owners{cluster}},
		"the Cluster owns it in an older version":  {have: owners{older}, want: owners{older}},
		"a Cluster of that name which is gone did": {have: owners{restored, other}, want: owners{cluster, other}, changed: true},
		"another Cluster owns it":                  {have: owners{namesake}, want: owners{namesake}},
		"another controls it":                      {have: owners{controller}, want: owners{controller}},
		"a set will":                               {labels: label(contract.SetNameLabel)},
		"a pool will":                              {labels: label(contract.PoolNameLabel)},
		"a control plane will":                     {labels: label(contract.ControlPlaneNameLabel)},
	} {
		t.Run(name, func(t *testing.T) {
			view := external.ClusterView{Presence: external.Present, GVK: schema.FromAPIVersionAndKind(cluster.APIVersion, cluster.Kind)}
			view.State.Key.Name, view.State.UID = cluster.Name, cluster.UID
			got, changed := ClusterOwner(&contract.Metadata{Labels: tc.labels, OwnerReferences: tc.have}, view,
				contract.SetNameLabel, contract.PoolNameLabel, contract.ControlPlaneNameLabel)
			if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.changed {
				t.Errorf("changed: want %v, got %v; owners (-want +got):\n%s", tc.changed, changed, diff)
			}
		})
	}
}

// No event follows a write of which nothing is left, so the error has the pass come again.
func TestAnOwnerReferenceThatIsNotStoredIsAnError(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"a webhook removes it": false, "it is stored": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
				contract.LayoutsOf(contract.V1Beta2).Machine)
			s := &Scope[contract.MachineState, contract.MachineUpdate]{}
			s.State.Key.Name, s.State.UID = "m", "u"
			answer := interceptor.NewClient(nil, interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
					if obj.SetResourceVersion("8"); stored {
						obj.SetOwnerReferences([]metav1.OwnerReference{s.OwnerReference()})
					}
					return nil
				},
			})
			s.frame = &Frame[contract.MachineState, contract.MachineUpdate]{Kind: kind, Writer: patch.NewWriter(answer, nil)}
			found := external.Object{Object: &unstructured.Unstructured{Object: map[string]any{}}}
			found.Object.SetUID("infra")
			found.Ref.Kind, found.Ref.Name = "FakeMachine", "m"
			err := s.TakeOwnership(t.Context(), &found, nil)
			if stored != (err == nil) || !stored && !strings.Contains(err.Error(), "FakeMachine m: the API server has not stored the owner") {
				t.Error(err)
			}
		})
	}
}
