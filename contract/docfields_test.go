package contract_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// shape is a layout and the name that the documentation calls it by.
type shape struct {
	name   string
	layout any
}

// documented is a kind of object and the shapes that it comes in.
type documented struct {
	kind   string
	shapes []shape
}

func TestDocumentationIsCurrent(t *testing.T) {
	for file, kinds := range map[string][]documented{"doc_fields.go": providerKinds(), "doc_machines.go": machineKinds()} {
		old, err := os.ReadFile(file)
		require.NoError(t, err)
		current := withTable(t, old, kinds)
		if *update {
			require.NoError(t, os.WriteFile(file, current, 0o600))
			continue
		}
		if diff := cmp.Diff(string(current), string(old)); diff != "" {
			t.Errorf("%s is not current, run `make generate` (-want +got):\n%s", file, diff)
		}
	}
}

// withTable keeps the heading in the first line of a file and replaces the rest of its comment by the table.
func withTable(t *testing.T, file []byte, kinds []documented) []byte {
	t.Helper()
	heading, _, _ := bytes.Cut(file, []byte("\n"))
	require.True(t, bytes.HasPrefix(heading, []byte("// # ")), "the file begins with %q, which is no heading", heading)
	table := bytes.NewBuffer(heading)
	table.WriteString("\n")
	var before []said
	for _, kind := range kinds {
		fmt.Fprintf(table, "//\n// %s:\n//\n", kind.kind)
		lines, fields := tableOf(kind, before)
		for _, line := range lines {
			fmt.Fprintf(table, "//\t%s\n", line)
		}
		before = append(before, said{kind: kind.kind, lines: fields})
	}
	table.WriteString("package contract\n")
	return table.Bytes()
}

// said is what the table says of the fields of one kind.
type said struct {
	kind  string
	lines map[string][]string
}

// tableOf returns the lines about a kind. What a kind before it said in the same words is only named, and the template of a
// set is the spec of a Machine at another place.
func tableOf(kind documented, before []said) (table []string, lines map[string][]string) {
	order, lines := fieldLines(kind)
	like := map[string][]string{}
	for _, name := range order {
		if head, short := sameAs(name, lines[name], before); head != "" {
			like[head] = append(like[head], short)
			continue
		}
		for _, line := range lines[name] {
			table = append(table, wrapped("", strings.SplitAfter(line, ", "))...)
		}
	}
	for _, head := range slices.Sorted(maps.Keys(like)) {
		table = append(table, wrapped(head, like[head])...)
	}
	return table, lines
}

// sameAs names the kind that said the same of a field, "" when none did, and what the field is called there.
func sameAs(name string, lines []string, before []said) (head, short string) {
	inSpec, template := strings.CutPrefix(name, "Template.")
	for _, other := range before {
		if template && other.kind == "Machine" && sameLines(lines[1:], other.lines[inSpec], "spec.template.") {
			return "Template, as in Machine, below spec.template: ", inSpec
		}
		if there := other.lines[name]; len(there) > 0 && lines[0] == there[0] && sameLines(lines[1:], there, "") {
			return "as in " + other.kind + ": ", name
		}
	}
	return "", ""
}

// sameLines compares what is said about a field, with the paths of have below prefix. Shapes that only one of the kinds
// comes in do not matter.
func sameLines(have, other []string, prefix string) bool {
	if len(other) < 2 {
		return false
	}
	for _, line := range have {
		names, place := shapesAt(strings.ReplaceAll(line, prefix, ""))
		for _, name := range names {
			if !slices.ContainsFunc(other[1:], func(line string) bool {
				those, there := shapesAt(line)
				return there == place && (slices.Contains(those, name) || those[0] == "" || name == "")
			}) {
				return false
			}
		}
	}
	return true
}

// shapesAt takes a line about a place apart; the name is empty when all shapes agree.
func shapesAt(line string) (names []string, place string) {
	line = strings.TrimSpace(line)
	if before, after, found := strings.Cut(line, ": "); found {
		return strings.Split(before, ", "), after
	}
	return []string{""}, line
}

func wrapped(head string, names []string) []string {
	var lines []string
	line := head
	for i, name := range names {
		if i < len(names)-1 && !strings.HasSuffix(name, " ") {
			name += ", "
		}
		if len(line)+len(name) > 118 {
			lines, line = append(lines, strings.TrimRight(line, " ")), "    "
		}
		line += name
	}
	if len(names) > 0 {
		lines = append(lines, line)
	}
	return lines
}

// fieldLines says of every field what it is, and per place which shapes have it there.
func fieldLines(kind documented) (order []string, lines map[string][]string) {
	lines = map[string][]string{}
	byName, all := map[string][]contract.Place{}, []string(nil)
	for i, s := range kind.shapes {
		for _, p := range contract.Places(s.layout) {
			if byName[p.Name] == nil {
				byName[p.Name] = make([]contract.Place, len(kind.shapes))
				all = append(all, p.Name)
			}
			byName[p.Name][i] = p
		}
	}
	for _, name := range all {
		places := byName[name]
		at := slices.IndexFunc(places, func(p contract.Place) bool { return len(p.Paths) > 0 })
		if at < 0 {
			continue
		}
		order = append(order, name)
		lines[name] = append([]string{describePlace(places[at])}, whereLines(kind.shapes, places)...)
	}
	return order, lines
}

func describePlace(p contract.Place) string {
	head := p.Name + ", by the " + p.Writer
	if p.Need != contract.NeedNone {
		head = p.Name + ", " + string(p.Need) + " by the " + p.Writer
	}
	return head + "; absent: " + p.Absent
}

// whereLines names the shapes that agree on a place together.
func whereLines(shapes []shape, places []contract.Place) []string {
	var texts []string
	names := map[string][]string{}
	for i, p := range places {
		where := "no place"
		if len(p.Paths) > 0 {
			var paths []string
			for _, path := range p.Paths {
				paths = append(paths, path.String())
			}
			where = strings.Join(paths, map[bool]string{true: ", ", false: ", else "}[p.Type == "content"]) + " (" + p.Type + ")"
		}
		if names[where] == nil {
			texts = append(texts, where)
		}
		names[where] = append(names[where], shapes[i].name)
	}
	if len(texts) == 1 {
		return []string{"    " + texts[0]}
	}
	var lines []string
	for _, where := range texts {
		if where != "no place" {
			lines = append(lines, "    "+strings.Join(names[where], ", ")+": "+where)
		}
	}
	return lines
}

func machineKinds() []documented {
	return []documented{
		{"Machine", []shape{{"v1beta1", contract.MachineV1Beta1()}, {"v1beta2", contract.MachineV1Beta2()},
			{"Kubermatic", contract.KubermaticMachine()}, {"Gardener", contract.GardenerMachine()}}},
		{"MachineSet", []shape{{"v1beta1", contract.MachineSetV1Beta1()}, {"v1beta2", contract.MachineSetV1Beta2()},
			{"Kubermatic", contract.KubermaticMachineSet()}, {"Gardener", contract.GardenerMachineSet()}}},
		{"MachineDeployment", []shape{{"v1beta1", contract.MachineDeploymentV1Beta1()}, {"v1beta2", contract.MachineDeploymentV1Beta2()},
			{"Kubermatic", contract.KubermaticMachineDeployment()}, {"Gardener", contract.GardenerMachineDeployment()}}},
		{"MachinePool", []shape{{"v1beta1", contract.MachinePoolV1Beta1()}, {"v1beta2", contract.MachinePoolV1Beta2()}}},
		{"MachineHealthCheck", []shape{{"v1beta1", contract.HealthCheckV1Beta1()}, {"v1beta2", contract.HealthCheckV1Beta2()}}},
		{"Cluster", []shape{{"v1beta1", contract.Cluster(contract.V1Beta1)}, {"v1beta2", contract.Cluster(contract.V1Beta2)}}},
	}
}

func providerKinds() []documented {
	var kinds []documented
	for _, role := range []string{"InfraMachine", "BootstrapConfig", "InfraMachinePool", "InfraMachineTemplate", "BootstrapConfigTemplate",
		"ControlPlane"} {
		kind := documented{kind: role}
		for _, v := range contractVersions() {
			kind.shapes = append(kind.shapes, shape{string(v), providerLayouts(v)[role]})
		}
		kinds = append(kinds, kind)
	}
	own := documented{kind: "InfraMachine, as its own provider writes it"}
	for _, v := range contractVersions() {
		own.shapes = append(own.shapes, shape{string(v), contract.ProvidedMachine(v)})
	}
	return append(kinds, own)
}
