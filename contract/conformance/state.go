package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/machinist-dev/machinist/contract"
)

// Limits of a Machine's own schema: longer values make every write of the Machine fail. Source: the Machine CRD of Cluster API v1.9 and
// later.
const (
	maxProviderID = 512
	maxAddress    = 256
	maxDomain     = 256
)

// state checks the consistency of an object's values, once their types are valid.
func (j *judge) state(obj map[string]any, v contract.Version) {
	u := &unstructured.Unstructured{Object: obj}
	switch j.Role {
	case InfraMachine:
		var s contract.InfraMachineState
		if l := contract.LayoutsOf(v).InfraMachine; l.Read(u, &s) == nil {
			j.infraMachine(obj, l, s)
		}
	case BootstrapConfig:
		var s contract.BootstrapConfigState
		if l := contract.LayoutsOf(v).BootstrapConfig; l.Read(u, &s) == nil {
			j.bootstrapConfig(obj, l, s)
		}
	case InfraMachinePool:
		var s contract.InfraMachinePoolState
		if l := contract.LayoutsOf(v).InfraMachinePool; l.Read(u, &s) == nil {
			j.infraMachinePool(obj, l, s)
		}
	case InfraMachineTemplate, InfraMachinePoolTemplate, BootstrapConfigTemplate:
		j.template(u, v)
	}
}

func (j *judge) infraMachine(obj map[string]any, l *contract.InfraMachineLayout, s contract.InfraMachineState) {
	const id, domain = "provider ID", "failure domain"
	at := l.ProviderID.Path().String()
	if s.Provisioned && s.ProviderID == "" {
		j.find(Must, at, nothing, "the ID that the machine's Node has", j.about(l.Version, id)+
			"a machine that is provisioned has one; the Machine waits for it")
	}
	j.length(at, s.ProviderID, maxProviderID, j.about(l.Version, id))
	for _, f := range []contract.Field[string]{l.FailureDomain, l.FailureDomainFallback} {
		text, _, _ := f.Get(obj) // value has reported another type
		j.length(f.Path().String(), text, maxDomain, j.about(l.Version, domain))
	}
	j.addresses(l, s.Addresses)
	if !s.Provisioned {
		j.reportedElsewhere(obj, l.Version, provisioned, l.Provisioned.Path())
		return
	}
	j.conditions(obj, l.Version, l.Conditions)
}

func (j *judge) bootstrapConfig(obj map[string]any, l *contract.BootstrapConfigLayout, s contract.BootstrapConfigState) {
	at, rule := l.DataSecretName.Path().String(), j.about(l.Version, "data secret")
	name, found := s.DataSecretName.Get()
	switch {
	case s.DataSecretCreated && name == "":
		what := nothing
		if found {
			what = "an empty name"
		}
		j.find(Must, at, what, "the name of the Secret", rule+"data that is created is in a Secret; the Machine reports an error and waits")
	case name != "" && len(validation.IsDNS1123Subdomain(name)) > 0:
		j.find(Must, at, fmt.Sprintf("%q", name), "the name of a Secret", rule+"no Secret can have this name")
	}
	if !s.DataSecretCreated {
		j.reportedElsewhere(obj, l.Version, "DataSecretCreated", l.DataSecretCreated.Path())
		return
	}
	j.conditions(obj, l.Version, l.Conditions)
}

// about returns the beginning of a rule's text.
func (j *judge) about(v contract.Version, rule string) string {
	return fmt.Sprintf("%s contract %s, %s: ", j.Role, v, rule)
}

func (j *judge) length(at, text string, most int, rule string) {
	if n := utf8.RuneCountInString(text); n > most {
		j.find(Must, at, fmt.Sprintf("%d characters", n), fmt.Sprintf("at most %d", most),
			rule+"the schema of the Machine, which shows it, refuses more")
	}
}

// addresses checks every address and reports each problem once, however many addresses have it.
func (j *judge) addresses(l *contract.InfraMachineLayout, addresses []contract.Address) {
	rule := j.about(l.Version, "addresses")
	for i, a := range addresses {
		at := fmt.Sprintf("%s.%d", l.Addresses.Path(), i)
		if !slices.Contains(addressTypes(), a.Type) {
			j.find(Must, at+".type", fmt.Sprintf("%q", a.Type), "one of "+strings.Join(addressTypes(), ", "),
				rule+"the schema of the Machine, which shows it, refuses others")
		}
		if a.Address == "" {
			j.find(Must, at+".address", "an empty text", "an address", rule+"the schema of the Machine, which shows it, refuses it")
		}
		j.length(at+".address", a.Address, maxAddress, rule)
	}
}

// reportedElsewhere reports an object that reports completion in the field of another contract: a reader of this contract waits forever.
func (j *judge) reportedElsewhere(obj map[string]any, v contract.Version, name string, at contract.Path) {
	for _, other := range contract.AllVersions() {
		for _, p := range placesOf(j.Role, other) {
			if p.Name != name || p.main.String() == at.String() {
				continue
			}
			if done, _, err := contract.At[bool](p.main.Segments()...).Get(obj); err == nil && done {
				j.find(Must, at.String(), fmt.Sprintf("not true, but %s is, the place of contract %s", p.main, other), "true",
					j.about(v, p.rule.name)+p.rule.why+"; who reads by contract "+string(v)+" never looks at the other place")
				return
			}
		}
	}
}

// conditions reports a completed object without conditions.
func (j *judge) conditions(obj map[string]any, v contract.Version, f contract.ConditionsField) {
	list, err := f.Get(obj, nil)
	if err != nil {
		return // value has reported it
	}
	if len(list) == 0 {
		j.find(Should, mainPath(f.Paths()).String(), nothing, "conditions",
			j.about(v, "conditions")+"people see on the owner what is wrong with the object")
	}
}

// maxProviderIDs is the limit of IDs in a MachinePool's own schema. Source: the MachinePool CRD of Cluster API v1.9 and later.
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
		j.find(Must, replicas, nothing, typeInteger, j.about(l.Version, "replicas")+"a pool that has machines reports how many")
	}
}

// providerIDs reports IDs that no MachinePool accepts.
func (j *judge) providerIDs(l *contract.InfraMachinePoolLayout, ids []string) {
	at, rule := l.ProviderIDList.Path().String(), j.about(l.Version, "providerIDList")
	if len(ids) > maxProviderIDs {
		j.find(Must, at, fmt.Sprintf("%d IDs", len(ids)), fmt.Sprintf("at most %d", maxProviderIDs),
			rule+"the schema of the MachinePool refuses more")
	}
	for i, id := range ids {
		at := fmt.Sprintf("%s.%d", at, i)
		if id == "" {
			j.find(Must, at, "an empty text", "an ID", rule+"the schema of the MachinePool refuses it")
		}
		j.length(at, id, maxProviderID, rule)
	}
}

// readByClusterAPI reports a pool that reports completion only in the field of the contract page.
func (j *judge) readByClusterAPI(obj map[string]any, l *contract.InfraMachinePoolLayout) {
	old := contract.LayoutsOf(contract.V1Beta1).InfraMachinePool.Provisioned
	if done, _, _ := old.Get(obj); !done {
		j.find(Should, old.Path().String(), "not true, but the pool is provisioned", "true", j.about(l.Version, "initialization completed")+
			"Cluster API up to v1.14 reads this one of pools, whatever the contract: set both")
	}
}

// template checks that objects can be made from a template, by making one.
func (j *judge) template(u *unstructured.Unstructured, v contract.Version) {
	const rule = "template resource definition"
	_, err := contract.FromTemplate(u, contract.Clone{Name: "clone"})
	wrong, typed := errors.AsType[*contract.FieldError](err)
	switch {
	case typed:
		j.find(Must, wrong.Path.String(), wrong.Got, wrong.Want, j.about(v, rule)+"objects cannot be cloned from it")
	case err != nil && !strings.HasSuffix(u.GetKind(), contract.TemplateSuffix):
		j.find(Must, "kind", cmp.Or(u.GetKind(), nothing), "a name that ends in "+contract.TemplateSuffix, j.about(v, rule)+
			"a clone's kind is the template's without it")
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template"); !found {
		j.find(Should, "spec.template", nothing, typeObject, j.about(v, rule)+"clones have nothing in them")
	}
}
