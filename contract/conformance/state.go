package conformance

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/machinist-dev/machinist/contract"
)

// What a Machine's own schema accepts; more makes every write of the Machine fail. Source: the Machine CRD of Cluster API
// v1.9 and later.
const (
	maxProviderID = 512
	maxAddress    = 256
	maxDomain     = 256
)

// maxEntries bounds how many entries of one list are looked at.
const maxEntries = 1000

// state judges what an object says, once its types are in order: what is said together must fit together.
func (j *judge) state(obj map[string]any, v contract.Version) {
	u := &unstructured.Unstructured{Object: obj}
	switch j.role {
	case InfraMachine:
		var s contract.InfraMachineState
		if l := contract.InfraMachine(v); l.Read(u, &s) == nil {
			j.infraMachine(obj, l, s)
		}
	case BootstrapConfig:
		var s contract.BootstrapConfigState
		if l := contract.BootstrapConfig(v); l.Read(u, &s) == nil {
			j.bootstrapConfig(obj, l, s)
		}
	case InfraMachinePool:
		var s contract.InfraMachinePoolState
		if l := contract.InfraMachinePool(v); l.Read(u, &s) == nil {
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
		text, _, _ := f.Get(obj) // another type was said by the reader of the place
		j.length(f.Path().String(), text, maxDomain, j.about(l.Version, domain))
	}
	j.addresses(l, s.Addresses)
	if !s.Provisioned {
		j.saidElsewhere(obj, l.Version, provisioned, l.Provisioned.Path())
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
		j.find(Must, at, fmt.Sprintf("%q", clip(name)), "the name of a Secret", rule+"no Secret can have this name")
	}
	if !s.DataSecretCreated {
		j.saidElsewhere(obj, l.Version, "DataSecretCreated", l.DataSecretCreated.Path())
		return
	}
	j.conditions(obj, l.Version, l.Conditions)
}

// about begins a rule's text.
func (j *judge) about(v contract.Version, rule string) string {
	return fmt.Sprintf("%s contract %s, %s: ", j.role, v, rule)
}

func (j *judge) length(at, text string, most int, rule string) {
	if n := utf8.RuneCountInString(text); n > most {
		j.find(Must, at, fmt.Sprintf("%d characters", n), fmt.Sprintf("at most %d", most),
			rule+"the schema of the Machine, which shows it, refuses more")
	}
}

// addresses judges every address and reports each trouble once, however many addresses have it.
func (j *judge) addresses(l *contract.InfraMachineLayout, addresses []contract.Address) {
	rule := j.about(l.Version, "addresses")
	for i, a := range addresses[:min(len(addresses), maxEntries)] {
		at := fmt.Sprintf("%s.%d", l.Addresses.Path(), i)
		if !slices.Contains(addressTypes(), a.Type) {
			j.find(Must, at+".type", fmt.Sprintf("%q", clip(a.Type)), "one of "+strings.Join(addressTypes(), ", "),
				rule+"the schema of the Machine, which shows it, refuses others")
		}
		if a.Address == "" {
			j.find(Must, at+".address", "an empty text", "an address", rule+"the schema of the Machine, which shows it, refuses it")
		}
		j.length(at+".address", a.Address, maxAddress, rule)
	}
}

// saidElsewhere finds an object that says at the place of another contract that it is done: a reader of this one
// waits for ever.
func (j *judge) saidElsewhere(obj map[string]any, v contract.Version, name string, at contract.Path) {
	for _, other := range contract.AllVersions() {
		for _, p := range placesOf(j.role, other) {
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

// conditions finds an object that is done but reports nothing about how it fares.
func (j *judge) conditions(obj map[string]any, v contract.Version, f contract.ConditionsField) {
	list, err := f.Get(obj, nil)
	if err != nil {
		return // said by the reader of the place
	}
	if len(list) == 0 {
		j.find(Should, mainPath(f.Paths()).String(), nothing, "conditions",
			j.about(v, "conditions")+"people see on the owner what is wrong with the object")
	}
}
