package machinepool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

func owner(kind, name, uid string, controls bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: kind, Name: name, UID: types.UID(uid)}
	if controls {
		ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	}
	return ref
}

func TestAPoolControlsWhatItRefersToUnlessAnotherDoes(t *testing.T) {
	restored := owner("MachinePool", "pool", "from-before", true)
	pool, other, cluster := owner("MachinePool", "pool", "p", true), owner("MachinePool", "other", "o", true), owner("Cluster", "demo", "c", false)
	for name, tc := range map[string]struct {
		have, want []metav1.OwnerReference
		changed    bool
		foreign    bool
	}{
		"nobody's":                            {nil, []metav1.OwnerReference{pool}, true, false},
		"the Cluster's too":                   {[]metav1.OwnerReference{cluster}, []metav1.OwnerReference{cluster, pool}, true, false},
		"its own":                             {[]metav1.OwnerReference{pool, cluster}, []metav1.OwnerReference{pool, cluster}, false, false},
		"its own, the other way around":       {[]metav1.OwnerReference{cluster, pool}, []metav1.OwnerReference{cluster, pool}, false, false},
		"its own from before a restore":       {[]metav1.OwnerReference{restored, cluster}, []metav1.OwnerReference{pool, cluster}, true, false},
		"its own, but it does not control it": {[]metav1.OwnerReference{owner("MachinePool", "pool", "p", false)}, []metav1.OwnerReference{pool}, true, false},
		"another's":                           {[]metav1.OwnerReference{other}, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			want, changed, foreign := own(tc.have, pool)
			if diff := cmp.Diff(tc.want, want); diff != "" || changed != tc.changed || (foreign != nil) != tc.foreign {
				t.Errorf("changed %v, foreign %v (-want +got):\n%s", changed, foreign, diff)
			}
		})
	}
}

func TestAPoolBelongsToTheClusterThatThereIs(t *testing.T) {
	cluster, gone := owner("Cluster", "demo", "new", false), owner("Cluster", "demo", "old", false)
	for name, tc := range map[string]struct {
		have, want []metav1.OwnerReference
		changed    bool
	}{
		"nobody's":           {nil, []metav1.OwnerReference{cluster}, true},
		"its own":            {[]metav1.OwnerReference{cluster}, []metav1.OwnerReference{cluster}, false},
		"that of one before": {[]metav1.OwnerReference{gone}, []metav1.OwnerReference{cluster}, true},
		"that of one before, first": {[]metav1.OwnerReference{gone, owner("App", "a", "a", false)},
			[]metav1.OwnerReference{cluster, owner("App", "a", "a", false)}, true},
		"somebody else's, too": {[]metav1.OwnerReference{owner("App", "a", "a", false)}, []metav1.OwnerReference{owner("App", "a", "a", false), cluster}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := ownedByCluster(tc.have, cluster)
			if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.changed {
				t.Errorf("changed %v (-want +got):\n%s", changed, diff)
			}
		})
	}
}

func TestAProviderNamesTheInstancesThatLeave(t *testing.T) {
	got := leavingIDs(map[string]string{contract.LeavingInstancesAnnotation: " p://1,p://2 ,, p:// "}, noderef.Rules{})
	if diff := cmp.Diff(map[string]struct{}{"p://1": {}, "p://2": {}}, got); diff != "" {
		t.Error(diff)
	}
	if got := leavingIDs(nil, noderef.Rules{}); len(got) != 0 {
		t.Errorf("want none, got %v", got)
	}
}
