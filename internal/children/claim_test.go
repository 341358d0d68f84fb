package children

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func ownerRef(apiVersion, kind, name string, uid types.UID, controls bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: &controls}
}

// claimed is what a claim depends on.
type claimed struct {
	Owner *contract.MachineSetState
	Child *contract.MachineState
}

func TestWhichMachinesASetTakesAndLetsGo(t *testing.T) {
	const v1beta2, fromSet = "cluster.x-k8s.io/v1beta2", GivenAnnotation
	controlledBy := func(apiVersion, kind, name string, uid types.UID) func(*claimed) {
		return func(f *claimed) {
			f.Child.OwnerReferences = []metav1.OwnerReference{ownerRef("v1", "Other", "owner", "no-controller", false),
				ownerRef(apiVersion, kind, name, uid, true)}
		}
	}
	ours := controlledBy(v1beta2, "MachineSet", "workers", "set-uid")
	both := func(changes ...func(*claimed)) func(*claimed) {
		return func(f *claimed) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	relabelled := func(f *claimed) { f.Child.Labels["pool"] = "quarantine" }
	gave := func(record string) func(*claimed) {
		return func(f *claimed) { f.Child.Annotations = map[string]string{fromSet: record} }
	}
	gaveOurs := gave(`{"labels":{"pool":"workers","cluster.x-k8s.io/cluster-name":"demo"}}`)
	machineGoes := func(f *claimed) { f.Child.Deleting = time.Unix(1, 0) }
	setGoes := func(f *claimed) { f.Owner.Deleting = time.Unix(1, 0) }
	for name, tc := range map[string]struct {
		change func(*claimed)
		want   claim
	}{
		"its labels, and no owner": {func(*claimed) {}, claimAdopt},
		"its labels, and an owner that does not control": {func(f *claimed) {
			f.Child.OwnerReferences = []metav1.OwnerReference{ownerRef(v1beta2, "MachineSet", "workers", "dead", false)}
		}, claimAdopt},
		"its labels, of another cluster":            {func(f *claimed) { f.Child.ClusterName = "other" }, claimNone},
		"other labels":                              {relabelled, claimNone},
		"its labels, and it goes":                   {machineGoes, claimNone},
		"its labels, and the set goes":              {setGoes, claimNone},
		"its own":                                   {ours, claimOwn},
		"its own, and it goes":                      {both(ours, machineGoes), claimOwn},
		"its own, relabelled by a person":           {both(ours, gaveOurs, relabelled), claimRelease},
		"its own, relabelled, and it goes":          {both(ours, gaveOurs, relabelled, machineGoes), claimOwn},
		"its own, relabelled, and the set goes":     {both(ours, gaveOurs, relabelled, setGoes), claimOwn},
		"its own, and the selector is another":      {both(ours, gave(`{"labels":{"pool":"before"}}`), relabelled), claimOwn},
		"its own, and what it was given is unknown": {both(ours, relabelled), claimOwn},
		"its own, with a record that is none":       {both(ours, gave("?"), relabelled), claimOwn},
		"a set of its name that is gone":            {controlledBy(v1beta2, "MachineSet", "workers", "dead"), claimAdopt},
		"a set of its name in another version":      {controlledBy("cluster.x-k8s.io/v1beta1", "MachineSet", "workers", "dead"), claimAdopt},
		"a set of another name":                     {controlledBy(v1beta2, "MachineSet", "others", "other"), claimNone},
		"another kind of its name":                  {controlledBy(v1beta2, "MachinePool", "workers", "other"), claimNone},
		"the kind of another group":                 {controlledBy("example.com/v1", "MachineSet", "workers", "other"), claimNone},
		"a set of its name, other labels":           {both(controlledBy(v1beta2, "MachineSet", "workers", "dead"), relabelled), claimNone},
	} {
		t.Run(name, func(t *testing.T) {
			f := claimed{Owner: &contract.MachineSetState{}, Child: &contract.MachineState{}}
			set, machine := f.Owner, f.Child
			set.Key, set.UID, set.ClusterName = types.NamespacedName{Namespace: "default", Name: "workers"}, "set-uid", "demo"
			set.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
			machine.Labels, machine.ClusterName = map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"}, "demo"
			selector, err := Selector(set.Selector, contract.CommonOf(set), contract.SetNameLabel)
			require.NoError(t, err)
			tc.change(&f)
			owner := &engine.Frame[contract.MachineSetState, contract.MachineSetUpdate]{}
			owner.Kind.GVK = schema.FromAPIVersionAndKind(v1beta2, "MachineSet")
			s := &Scope[contract.MachineSetState, contract.MachineSetUpdate, contract.MachineState, contract.MachineUpdate]{
				Selector: selector, owner: &engine.Scope[contract.MachineSetState, contract.MachineSetUpdate]{State: *set},
			}
			s.frame = &Frame[contract.MachineSetState, contract.MachineSetUpdate, contract.MachineState, contract.MachineUpdate]{
				owner: owner,
			}
			if got := s.decideClaim(Child[contract.MachineState]{State: machine, Metadata: &machine.Metadata}); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
	require.Equal(t, "claim(9)", claim(9).String())
}

func TestOwnersOfAMachineThatIsTakenOrLetGo(t *testing.T) {
	set := ownerRef("cluster.x-k8s.io/v1beta2", "MachineSet", "workers", "set-uid", true)
	dead, other := ownerRef("cluster.x-k8s.io/v1beta2", "MachineSet", "workers", "dead", true), ownerRef("v1", "Other", "owner", "other",
		false)
	unsaid := other
	unsaid.Controller, unsaid.UID = nil, "unsaid"
	if diff := cmp.Diff([]metav1.OwnerReference{set, other, unsaid}, Owned([]metav1.OwnerReference{dead, other, unsaid}, set)); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{other, unsaid}, released([]metav1.OwnerReference{other, set, unsaid}, set)); diff != "" {
		t.Errorf("let go (-want +got):\n%s", diff)
	}
}

func TestASetWithoutASelectorMeansMachinesThatCarryItsName(t *testing.T) {
	set := &contract.MachineSetState{Metadata: contract.Metadata{Key: types.NamespacedName{Name: "workers"}}}
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"none":   {nil, contract.SetNameLabel + "=workers"},
		"empty":  {&metav1.LabelSelector{}, contract.SetNameLabel + "=workers"},
		"labels": {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, "a=b"},
		"expressions": {&metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Selector(tc.selector, contract.CommonOf(set), contract.SetNameLabel)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.String())
		})
	}
}

// String returns the name of the constant.
func (c claim) String() string {
	names := [...]string{"None", "Own", "Adopt", "Release"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("claim(%d)", uint8(c))
}
