package main

import (
	"flag"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
)

var update = flag.Bool("update", false, "write "+rightsFile)

// rightsFile has the rights that the chart grants.
var rightsFile = filepath.Join("deploy", "chart", "files", "rights.yaml")

const rightsHeader = `# Code generated from what manager --print-rbac prints; "make generate" writes it. DO NOT EDIT.
#
# The chart grants the rules of an entry if all switches of one line of its "when" are on, which templates/_rights.tpl derives from the
# values. With "each", it grants them once for each resource of that value: $group, $resource, and $template for its templates.
# $classGroup is the group of the MachineClasses, and $apiGroup that of the other kinds. "referred" is on where Machines use objects of that
# resource, or of any. What is "within" the namespaces of what is reconciled is granted there alone, if the values name any.
`

// rights are the content of that file.
type rights struct {
	ClusterRole  []rightsEntry       `json:"clusterRole"`
	LeaderRole   []rbacv1.PolicyRule `json:"leaderRole"`
	switches     []rightsSwitch
	install      []rbacv1.PolicyRule // those of --install-crds, which takes long: it reads the CRDs
	combinations []map[right]bool    // by mask of switches; nil where they exclude each other
}

// rightsEntry has rules with one condition: all switches of one of the lines are on.
type rightsEntry struct {
	Each   string              `json:"each,omitempty"`
	Within bool                `json:"within,omitempty"`
	When   [][]string          `json:"when"`
	Rules  []rbacv1.PolicyRule `json:"rules"`
}

// maxSwitches is how many switches at most a right depends on at once.
const maxSwitches = 6

// installSwitch is the switch of --install-crds.
const installSwitch = "installCRDs"

// rightsSwitch is a name in the file, with the flags that it stands for.
type rightsSwitch struct{ name, on, off string }

// rightsSwitches are all values of the chart on which rights depend, except for the API group.
func rightsSwitches() []rightsSwitch {
	return []rightsSwitch{
		{"machineSets", "--machinesets", ""}, {"machineDeployments", "--machinedeployments", ""},
		{"machinePools", "--machinepools", ""}, {"machineHealthChecks", "--machinehealthchecks", ""},
		{"clusters", "--clusters=always", "--clusters=never"}, {installSwitch, "", ""},
		{"driver", "--driver=kwok", ""}, {"referred", "", "--driver=kwok"},
		{"metricsSecure", "", "--metrics-secure=false"},
		{"freezeAll", "--machine-safety-freeze-all", ""}, {"ownerReferencesEnforced", "--owner-references-enforced", ""},
		{"workloadClusters", "--workload-clusters", ""}, {"nodesHere", "", "--workload-clusters"},
		{"providerResources", "--provider-resources=resources.providerResources", "--provider-resources="},
		{"controlPlaneResources", "--control-plane-resources=resources.controlPlaneResources", "--control-plane-resources="},
		{"remediationResources", "--remediation-resources=resources.remediationResources", "--remediation-resources="},
	}
}

// opposites returns the pairs of switches of which exactly one is on, as masks.
func (all *rights) opposites() []int {
	pairs := map[string]int{"driver": 0, "referred": 0, "workloadClusters": 1, "nodesHere": 1}
	masks := make([]int, 2)
	for i, s := range all.switches {
		if pair, found := pairs[s.name]; found {
			masks[pair] |= 1 << i
		}
	}
	return masks
}

// right is one verb on one resource, in the whole cluster or within the namespaces of what is reconciled.
type right struct {
	group, resource, name, verb string
	within                      bool
}

func (r right) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}}
	if r.name != "" {
		rule.ResourceNames = []string{r.name}
	}
	return rule
}

// widened is the right on objects of any name.
func (r right) widened() right { return right{r.group, r.resource, "", r.verb, r.within} }

// TestTheChartsRightsAreThoseOfTheManager computes from combinations of flags on what each right depends: from all of few flags, because a
// right depends on few, and of nearly all, which no right may be missing with.
func TestTheChartsRightsAreThoseOfTheManager(t *testing.T) {
	t.Parallel()
	own, err := parse([]string{"--api-group=machinist.dev", "--install-crds"}, io.Discard)
	require.NoError(t, err)
	all := rights{switches: rightsSwitches(), install: installRules(own)}
	all.combinations = make([]map[right]bool, 1<<len(all.switches))
	for mask := range all.combinations {
		if on := bits.OnesCount(uint(mask)); on <= maxSwitches || on >= len(all.switches)-len(all.opposites())-1 {
			all.combinations[mask] = all.granted(t, mask)
		}
	}
	for r := range all.seen() {
		all.add(r, all.lines(t, r, all.condition(t, r)))
	}
	all.sort()
	o, err := parse([]string{"--leader-elect", "--leader-election-id=$lease"}, io.Discard)
	require.NoError(t, err)
	all.LeaderRole = leaderRole(o).Rules
	want, err := yaml.Marshal(all)
	require.NoError(t, err)
	want = append([]byte(rightsHeader), want...)
	if *update {
		require.NoError(t, os.WriteFile(rightsFile, want, 0o600))
	}
	got, err := os.ReadFile(rightsFile)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), string(got)), "run make generate")
}

// granted returns the rights with the switches of a mask; nil if they exclude each other.
func (all *rights) granted(t *testing.T, mask int) map[right]bool {
	t.Helper()
	for _, pair := range all.opposites() {
		if bits.OnesCount(uint(mask&pair)) != 1 {
			return nil
		}
	}
	args, installs := []string{"--api-group=machinist.dev", "--namespace=one"}, false
	for i, s := range all.switches {
		isOn := mask&(1<<i) != 0
		installs = installs || isOn && s.name == installSwitch
		args = append(args, map[bool]string{true: s.on, false: s.off}[isOn])
	}
	o, err := parse(slices.DeleteFunc(args, func(arg string) bool { return arg == "" }), io.Discard)
	require.NoError(t, err)
	rules := clusterRole(o).Rules
	if installs {
		rules = contract.MergePolicyRules(rules, all.install)
	}
	got := map[right]bool{}
	addRights(got, rules, false)
	addRights(got, namespaceRoles(o)[0].Rules, true)
	return got
}

func addRights(to map[right]bool, rules []rbacv1.PolicyRule, within bool) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, name := range orAny(rule.ResourceNames) {
				for _, verb := range rule.Verbs {
					to[right{rule.APIGroups[0], resource, name, verb, within}] = true
				}
			}
		}
	}
}

func (all *rights) seen() map[right]bool {
	seen := map[right]bool{}
	for _, granted := range all.combinations {
		for r := range granted {
			seen[r] = true
		}
	}
	return seen
}

// condition returns the smallest combinations of switches with a right, and fails if the right is missing with more switches.
func (all *rights) condition(t *testing.T, r right) []int {
	t.Helper()
	has := func(granted map[right]bool) bool { return granted[r] || granted[r.widened()] }
	var least []int
	masks := make([]int, len(all.combinations))
	for mask := range masks {
		masks[mask] = mask
	}
	slices.SortStableFunc(masks, func(a, b int) int { return bits.OnesCount(uint(a)) - bits.OnesCount(uint(b)) })
	for _, mask := range masks {
		granted := all.combinations[mask]
		covered := slices.ContainsFunc(least, func(less int) bool { return less&mask == less })
		if granted == nil {
			continue
		}
		require.False(t, covered && !has(granted), "%v is gone with %v", r, all.names(mask))
		if !covered && has(granted) {
			require.LessOrEqual(t, bits.OnesCount(uint(mask)), maxSwitches, "%v depends on more: raise maxSwitches", r)
			least = append(least, mask)
		}
	}
	// A right on objects of any name says it already.
	return slices.DeleteFunc(least, func(mask int) bool { return !all.combinations[mask][r] })
}

// names are the switches of a mask.
func (all *rights) names(mask int) []string {
	names := []string{}
	for i, s := range all.switches {
		if mask&(1<<i) != 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// lines writes a condition. What holds with either of two opposites names neither.
func (all *rights) lines(t *testing.T, r right, masks []int) [][]string {
	t.Helper()
	has := func(mask int) bool { return all.combinations[mask][r] || all.combinations[mask][r.widened()] }
	var either func(mask int, pairs ...int) bool
	either = func(mask int, pairs ...int) bool {
		if len(pairs) == 0 {
			return has(mask)
		}
		return either(mask, pairs[1:]...) && either(mask^pairs[0], pairs[1:]...)
	}
	var least []int
	for _, mask := range masks {
		line, dropped := mask, []int(nil)
		for _, pair := range all.opposites() {
			if either(mask, append(dropped, pair)...) {
				line, dropped = line&^pair, append(dropped, pair)
			}
		}
		least = append(least, line)
	}
	least = slices.DeleteFunc(slices.Clone(least), func(line int) bool {
		return slices.ContainsFunc(least, func(less int) bool { return less != line && less&line == less })
	})
	for mask, granted := range all.combinations {
		if granted != nil {
			holds := slices.ContainsFunc(least, func(line int) bool { return line&mask == line })
			require.False(t, holds && !has(mask) || granted[r] && !holds, "%v with %v", r, all.names(mask))
		}
	}
	lines := make([][]string, 0, len(least))
	for _, line := range least {
		lines = append(lines, all.names(line))
	}
	slices.SortFunc(lines, slices.Compare)
	return slices.CompactFunc(lines, slices.Equal)
}

// add adds a right to the entry with its condition.
func (all *rights) add(r right, when [][]string) {
	entry := rightsEntry{Within: r.within, When: when}
	switch {
	case r.group == "machinist.dev" && r.resource == classResource: // Machines of Cluster API name those of machinist.dev too
		r.group = "$classGroup"
	case r.group == "machinist.dev":
		r.group = "$apiGroup"
	case strings.HasSuffix(r.group, "Resources"):
		entry.Each = r.group
		r.group, r.resource = "$group", map[string]string{"resources": "$resource", "resourcetemplates": "$template"}[r.resource]
		for i := range entry.When { // there is nothing to repeat without it
			entry.When[i] = slices.DeleteFunc(entry.When[i], func(name string) bool { return name == entry.Each })
		}
	}
	for i := range all.ClusterRole {
		have := &all.ClusterRole[i]
		if have.Each == entry.Each && have.Within == entry.Within && slices.EqualFunc(have.When, entry.When, slices.Equal) {
			have.Rules = contract.MergePolicyRules(have.Rules, []rbacv1.PolicyRule{r.rule()})
			return
		}
	}
	entry.Rules = []rbacv1.PolicyRule{r.rule()}
	all.ClusterRole = append(all.ClusterRole, entry)
}

// sort puts what is always granted first.
func (all *rights) sort() {
	slices.SortFunc(all.ClusterRole, func(a, b rightsEntry) int {
		if by := strings.Compare(a.Each, b.Each); by != 0 {
			return by
		}
		if a.Within != b.Within {
			return map[bool]int{false: -1, true: 1}[a.Within]
		}
		return slices.CompareFunc(a.When, b.When, slices.Compare)
	})
}
