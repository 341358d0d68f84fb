package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// maxProviderIDs is how many IDs a MachinePool's own schema accepts. Source: the MachinePool CRD of Cluster API v1.9 and later.
const maxProviderIDs = 10_000

func (j *judge) infraMachinePool(obj map[string]any, l *contract.InfraMachinePoolLayout, s contract.InfraMachinePoolState) {
	j.providerIDs(l, s.ProviderIDList)
	if !s.Provisioned {
		return
	}
	j.conditions(obj, l.Version, l.Conditions)
	j.readByClusterAPI(obj, l)
	ids, replicas := l.ProviderIDList.Path().String(), l.Replicas.Path().String()
	count, found := s.Replicas.Get()
	switch {
	case found && count > 0 && len(s.ProviderIDList) == 0:
		j.find(Must, ids, nothing, "the IDs of the machines", j.about(l.Version, "providerIDList")+
			fmt.Sprintf("there are %d replicas; the MachinePool waits for their IDs", count))
	case !found && len(s.ProviderIDList) > 0:
		j.find(Must, replicas, nothing, typeInteger, j.about(l.Version, "replicas")+"a pool that has machines says how many")
	}
}

// providerIDs finds IDs that no MachinePool takes; it stops at the first, because one is enough for all to be refused.
func (j *judge) providerIDs(l *contract.InfraMachinePoolLayout, ids []string) {
	at, rule := l.ProviderIDList.Path().String(), j.about(l.Version, "providerIDList")
	if len(ids) > maxProviderIDs {
		j.find(Must, at, fmt.Sprintf("%d IDs", len(ids)), fmt.Sprintf("at most %d", maxProviderIDs),
			rule+"the schema of the MachinePool refuses more")
	}
	ids = ids[:min(len(ids), maxProviderIDs)]
	if i := slices.Index(ids, ""); i >= 0 {
		j.find(Must, fmt.Sprintf("%s.%d", at, i), "an empty text", "an ID", rule+"the schema of the MachinePool refuses it")
	}
	if i := slices.IndexFunc(ids, func(id string) bool { return len([]rune(id)) > maxProviderID }); i >= 0 {
		j.length(fmt.Sprintf("%s.%d", at, i), ids[i], maxProviderID, rule)
	}
}

// readByClusterAPI finds a pool that says that it is done where only the contract's page looks.
func (j *judge) readByClusterAPI(obj map[string]any, l *contract.InfraMachinePoolLayout) {
	old := contract.InfraMachinePool(contract.V1Beta1).Provisioned
	if done, _, _ := old.Get(obj); !done {
		j.find(Should, old.Path().String(), "not true, but the pool is provisioned", "true", j.about(l.Version, "initialization completed")+
			"Cluster API up to v1.14 reads this one of pools, whatever the contract: set both")
	}
}

// template judges whether objects can be made from a template, by making one.
func (j *judge) template(u *unstructured.Unstructured, v contract.Version) {
	const rule = "template resource definition"
	_, err := contract.FromTemplate(u, contract.Clone{Name: "clone"})
	wrong, typed := errors.AsType[*contract.FieldError](err)
	switch {
	case typed:
		j.find(Must, clip(wrong.Path.String()), clip(wrong.Got), wrong.Want, j.about(v, rule)+"objects cannot be cloned from it")
	case err != nil && !strings.HasSuffix(u.GetKind(), contract.TemplateSuffix):
		j.find(Must, "kind", cmp.Or(clip(u.GetKind()), nothing), "a name that ends in "+contract.TemplateSuffix, j.about(v, rule)+
			"a clone's kind is the template's without it")
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template"); !found {
		j.find(Should, "spec.template", nothing, typeObject, j.about(v, rule)+"clones have nothing in them")
	}
}
