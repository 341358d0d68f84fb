package conformance

import (
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

// place is one field of a layout, ready to be judged. What it is and where stands in the layout and nowhere else.
type place struct {
	contract.Place
	// main is the path that the contract's page names; the others are those of providers in transition.
	main contract.Path
	// shape is what the schema must be.
	shape shape
	rule  rule
	// level is that of a missing place; empty when it may be missing. Wrong is that of a value of another type.
	level Level
}

// fallbackSuffix ends the name of a layout's second field for a datum, which readers look at too.
const fallbackSuffix = "Fallback"

// provisioned is the field whose fallback matters to pools.
const provisioned = "Provisioned"

// placesOf returns the fields of a role's layout that have a place, nil for a contract version without a layout.
func placesOf(role Role, v contract.Version) []place {
	var places []place
	for _, f := range contract.Places(layoutOf(role, v)) {
		if len(f.Paths) == 0 {
			continue
		}
		p := place{Place: f, main: mainPath(f.Paths), shape: shapeOf(f.Type), rule: ruleOf(f), level: levelOf(f.Need)}
		places = append(places, p)
	}
	return places
}

// layoutOf returns a pointer to a layout, or nil where the contract has none.
func layoutOf(role Role, v contract.Version) any {
	switch role {
	case InfraMachine:
		return contract.InfraMachine(v)
	case InfraMachinePool:
		return contract.InfraMachinePool(v)
	case BootstrapConfig:
		return contract.BootstrapConfig(v)
	case InfraMachineTemplate, BootstrapConfigTemplate, InfraMachinePoolTemplate:
		return contract.Template(v)
	default:
		return nil
	}
}

// mainPath returns the shortest path: those of providers in transition go through a struct that is named after a contract.
func mainPath(paths []contract.Path) contract.Path {
	return slices.MinFunc(paths, func(a, b contract.Path) int { return len(a.Segments()) - len(b.Segments()) })
}

func levelOf(need contract.Need) Level {
	if need == contract.NeedMust || need == contract.NeedShould {
		return Level(need)
	}
	return ""
}

// rule is the contract's name of a rule, and what depends on it.
type rule struct{ name, why string }

// ruleOf names the rule of the contract's page that a field of a layout stands for.
func ruleOf(p contract.Place) rule {
	const waits = "its owner waits for it to be true, without an end and without an error"
	known := map[string]rule{
		provisioned:                 {"initialization completed", waits},
		"DataSecretCreated":         {"initialization completed", waits},
		"DataSecretName":            {"data secret", "the infrastructure provider waits for the data of the first boot"},
		"ProviderID":                {"provider ID", "the Node is found by it"},
		"ProviderIDList":            {"providerIDList", "the Nodes of the pool are found by it"},
		"Replicas":                  {"replicas", "the MachinePool reports it"},
		"Conditions":                {"conditions", "people see on the owner what is wrong with the object"},
		"Addresses":                 {"addresses", "the Machine shows them"},
		"FailureDomain":             {"failure domain", "the Machine shows it"},
		"FailureReason":             {"terminal failures", "the owner shows it"},
		"FailureMessage":            {"terminal failures", "the owner shows it"},
		"InfrastructureMachineKind": {"MachinePoolMachines support", "the Machines of the pool are made by it"},
		"Spec":                      {"template resource definition", "objects are cloned from it"},
		"Labels":                    {"template resource definition", "clones get it"},
		"Annotations":               {"template resource definition", "clones get it"},
	}
	if r, ok := known[strings.TrimSuffix(p.Name, fallbackSuffix)]; ok {
		return r
	}
	return rule{p.Name, "a reader that cannot read it stops"}
}

// shapeOf translates the type names of layouts into those of schemas.
func shapeOf(typeName string) shape {
	switch typeName {
	case "string", "time", "duration":
		return scalar(typeString)
	case "bool":
		return scalar(typeBoolean)
	case "integer", "32-bit integer", "seconds":
		return scalar(typeInteger)
	case "list of strings":
		return listOf("list of strings", scalar(typeString))
	case "list of addresses":
		return addressesShape()
	case "list of conditions":
		return conditionsShape()
	case "map of strings":
		return shape{name: "map of strings", typed: typeObject, values: new(scalar(typeString))}
	default:
		return scalar(typeObject)
	}
}
