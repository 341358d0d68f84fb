package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func owner(kind, name, uid string, controls bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: kind, Name: name, UID: types.UID(uid)}
	if controls {
		ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	}
	return ref
}

func TestAnObjectControlsWhatItRefersToUnlessAnotherDoes(t *testing.T) {
	restored := owner("MachinePool", "pool", "from-before", true)
	pool, other, cluster := owner("MachinePool", "pool", "p", true), owner("MachinePool", "other", "o", true), owner("Cluster", "demo", "c",
		false)
	for name, tc := range map[string]struct {
		have, want []metav1.OwnerReference
		changed    bool
		foreign    bool
	}{
		"unowned":                       {nil, []metav1.OwnerReference{pool}, true, false},
		"the Cluster's too":             {[]metav1.OwnerReference{cluster}, []metav1.OwnerReference{cluster, pool}, true, false},
		"its own":                       {[]metav1.OwnerReference{pool, cluster}, []metav1.OwnerReference{pool, cluster}, false, false},
		"its own, the other way around": {[]metav1.OwnerReference{cluster, pool}, []metav1.OwnerReference{cluster, pool}, false, false},
		"its own from before a restore": {[]metav1.OwnerReference{restored, cluster}, []metav1.OwnerReference{pool, cluster}, true, false},
		"its own, but it does not control it": {[]metav1.OwnerReference{owner("MachinePool", "pool", "p", false)}, []metav1.OwnerReference{pool},
			true, false},
		"another's": {[]metav1.OwnerReference{other}, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			want, changed, foreign := engine.Own(tc.have, pool, nil)
			if diff := cmp.Diff(tc.want, want); diff != "" || changed != tc.changed || (foreign != nil) != tc.foreign {
				t.Errorf("changed %v, foreign %v (-want +got):\n%s", changed, foreign, diff)
			}
		})
	}
}

func TestAnObjectBelongsToTheClusterThatExists(t *testing.T) {
	cluster, gone := owner("Cluster", "demo", "new", false), owner("Cluster", "demo", "old", false)
	view := external.ClusterView{GVK: fake.ClusterGVK(), Presence: external.Present}
	view.State.Key, view.State.UID = types.NamespacedName{Namespace: "default", Name: "demo"}, "new"
	for name, tc := range map[string]struct {
		have, want []metav1.OwnerReference
		changed    bool
	}{
		"unowned":            {nil, []metav1.OwnerReference{cluster}, true},
		"its own":            {[]metav1.OwnerReference{cluster}, []metav1.OwnerReference{cluster}, false},
		"that of one before": {[]metav1.OwnerReference{gone}, []metav1.OwnerReference{cluster}, true},
		"that of one before, first": {[]metav1.OwnerReference{gone, owner("App", "a", "a", false)},
			[]metav1.OwnerReference{cluster, owner("App", "a", "a", false)}, true},
		"another owner too": {[]metav1.OwnerReference{owner("App", "a", "a", false)},
			[]metav1.OwnerReference{owner("App", "a", "a", false), cluster}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := engine.ClusterOwner(&contract.Metadata{OwnerReferences: tc.have}, view)
			if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.changed {
				t.Errorf("changed %v (-want +got):\n%s", changed, diff)
			}
		})
	}
}
