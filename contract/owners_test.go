package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func TestAnOwnerTakesThePlaceThatItHadBeforeARestore(t *testing.T) {
	t.Parallel()
	ref := func(apiVersion, kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid)}
	}
	me, other := ref("example.com/v1", "Box", "b", "now"), ref("v1", "ConfigMap", "o", "o")
	before, older := ref("example.com/v1", "Box", "b", "before"), ref("example.com/v1alpha1", "Box", "b", "now")
	stranger := ref("other.example.com/v1", "Box", "b", "stranger")
	for name, tc := range map[string]struct {
		have, want     []metav1.OwnerReference
		restored, same bool
	}{
		"no owner":               {want: []metav1.OwnerReference{me}},
		"the owner, and another": {have: []metav1.OwnerReference{me, other}, want: []metav1.OwnerReference{me, other}, same: true},
		"another, and the owner": {have: []metav1.OwnerReference{other, me}, want: []metav1.OwnerReference{other, me}, same: true},
		"another alone":          {have: []metav1.OwnerReference{other}, want: []metav1.OwnerReference{other, me}},
		"an older version":       {have: []metav1.OwnerReference{older, other}, want: []metav1.OwnerReference{me, other}},
		"from before a restore":  {have: []metav1.OwnerReference{before, other}, want: []metav1.OwnerReference{me, other}, restored: true},
		"before and after": {have: []metav1.OwnerReference{before, other, me}, want: []metav1.OwnerReference{me, other},
			restored: true},
		"a namesake of another's group": {have: []metav1.OwnerReference{stranger}, want: []metav1.OwnerReference{stranger, me}},
	} {
		got := contract.WithOwner(tc.have, me)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if restored := contract.RestoredOwner(tc.have, me); restored != tc.restored {
			t.Errorf("%s: restored: want %v, got %v", name, tc.restored, restored)
		}
		if same := contract.SameOwners(tc.have, got); same != tc.same {
			t.Errorf("%s: the same: want %v, got %v", name, tc.same, same)
		}
	}
	if a, b := []metav1.OwnerReference{me, other}, []metav1.OwnerReference{me, me}; contract.SameOwners(a, b) || contract.SameOwners(b, a) {
		t.Error("one owner twice is not two owners, in either direction")
	}
	if !contract.SameOwners([]metav1.OwnerReference{me, other}, []metav1.OwnerReference{other, me}) {
		t.Error("order is a difference")
	}
}
