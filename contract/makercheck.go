package contract

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CheckMaker has a maker make a Machine, and returns what the Machine lacks of its seed, and of the Cluster of its set. Without that a set
// would not recognize it, and make another one. It makes no request. A test of the embedder passes a set as its users write one; nil is an
// empty set, which does not show whether the Cluster is forgotten. The set is not changed.
//
// The error is that of the maker, or of a kind that cannot read what it made; a maker that panics is an error too.
func CheckMaker(sets MachineSetKind, machines Kind, maker MachineMaker, set Object) ([]Forgotten, error) {
	return checkMade(sets, machines, set, "Machine", func(owner Object, s probeSeed) (Object, error) {
		return maker.NewMachine(owner, MachineSeed{
			Key: s.key, Labels: maps.Clone(s.texts), Annotations: maps.Clone(s.texts), Finalizers: s.finalizers, Owners: s.owners,
		})
	})
}

// CheckSetMaker is CheckMaker for the MachineSets of a deployment.
func CheckSetMaker(
	deployments MachineDeploymentKind, sets MachineSetKind, maker MachineSetMaker, deployment Object,
) ([]Forgotten, error) {
	return checkMade(deployments, sets, deployment, "MachineSet", func(owner Object, s probeSeed) (Object, error) {
		return maker.NewSet(owner, MachineSetSeed{
			Key: s.key, Labels: maps.Clone(s.texts), Annotations: maps.Clone(s.texts), Finalizers: s.finalizers, Owners: s.owners,
		})
	})
}

// probeSeed is the metadata of a seed.
type probeSeed struct {
	key        types.NamespacedName
	texts      map[string]string
	finalizers []string
	owners     []metav1.OwnerReference
}

func checkMade[S, U, CS, CU any, PS stateOf[S], PCS stateOf[CS]](
	owners KindOf[S, U], kind KindOf[CS, CU], owner Object, what string, maker func(Object, probeSeed) (Object, error),
) ([]Forgotten, error) {
	if owner == nil {
		owner = owners.New()
		owner.SetNamespace("probe")
		owner.SetName("probe")
	}
	seed := probeSeed{
		types.NamespacedName{Namespace: "probe", Name: "probe-made"}, map[string]string{"example.com/a": "a", "example.com/b": "b"},
		[]string{"example.com/probe"}, []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "probe", UID: "probe"}},
	}
	made, err := makes(maker, owner, seed)
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", what, err)
	}
	var of S
	var got CS
	if err := owners.Adapter.Read(owner, &of); err != nil {
		return nil, err
	}
	if err := kind.Adapter.Read(made, &got); err != nil {
		return nil, err
	}
	return seedForgotten(seed, PS(&of).Common().ClusterName, PCS(&got).Common(), what), nil
}

// makes calls the function of an embedder.
func makes(maker func(Object, probeSeed) (Object, error), owner Object, seed probeSeed) (made Object, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the maker panics: %v", p)
		}
	}()
	return maker(owner, seed)
}

// stateOf is the pointer type of a state.
type stateOf[S any] interface {
	*S
	Common() Common
}

func seedForgotten(seed probeSeed, cluster string, got Common, what string) []Forgotten {
	breaks := "its owner does not recognize the " + what + " and makes another one"
	has := func(have map[string]string) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(seed.texts)), func(key string) bool { return have[key] != seed.texts[key] })
	}
	all := missing([]member{
		{got.Key.Name == seed.key.Name, "metadata.name", NeedMust, breaks},
		{got.Key.Namespace == seed.key.Namespace, "metadata.namespace", NeedMust, breaks},
		{has(got.Labels), "metadata.labels", NeedMust, breaks},
		{has(got.Annotations), "metadata.annotations", NeedMust, breaks},
		{len(got.OwnerReferences) == 1, "metadata.ownerReferences", NeedMust, breaks},
		{slices.Contains(got.Finalizers, seed.finalizers[0]), "metadata.finalizers", NeedMust, "the " + what + " may go before what it has made"},
		{got.ClusterName == cluster, "the name of its Cluster", NeedMust, breaks},
	})
	for i := range all {
		all[i].mend = "have the maker give it to what it makes"
	}
	return all
}
