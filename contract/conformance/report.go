package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// Report is the result of a check. Its lists are never nil.
type Report struct {
	// Role is the role that was checked.
	Role Role `json:"role"`
	// Judged lists the checked API versions with their contracts, newest contract first.
	Judged []Judged `json:"judged"`
	// Findings lists the broken rules: MUST before SHOULD, then sorted by path.
	Findings []Finding `json:"findings"`
}

// Judged is a checked API version, without its group, and its contract.
type Judged struct {
	APIVersion string           `json:"apiVersion"`
	Contract   contract.Version `json:"contract"`
}

// judge collects findings.
type judge struct{ Report }

// judgeOf returns a judge whose lists are empty and not nil, for consumers of JSON.
func judgeOf(role Role) *judge {
	return &judge{Report{Role: role, Judged: []Judged{}, Findings: []Finding{}}}
}

func (j *judge) report() Report {
	j.Findings = sorted(j.Findings)
	return j.Report
}

func (j *judge) find(level contract.Need, path, found, want, rule string) {
	j.Findings = append(j.Findings, Finding{Level: level, Path: path, Found: found, Want: want, Rule: rule})
}

// expect reports a text that differs from the wanted one.
func (j *judge) expect(path, found, want, rule string) {
	if found != want {
		j.find(Must, path, cmp.Or(found, nothing), want, rule)
	}
}

// Levels of findings.
const (
	// Must is a rule without which Cluster API does not work with the provider.
	Must = contract.NeedMust
	// Should is a rule that affects people when broken: a missing condition, for instance.
	Should = contract.NeedShould
)

// Finding is a place in a CRD or an object that breaks a rule.
type Finding struct {
	// Level is Must or Should.
	Level contract.Need `json:"level"`
	// Path is the dotted path: "status.initialization.provisioned". In a CRD it has a prefix with the API version, as in
	// "spec.versions[v1beta2]: status.initialization.provisioned".
	Path string `json:"path"`
	// Found is the value or type at the path; "nothing" when it is missing.
	Found string `json:"found"`
	// Want is the value or type that the rule requires.
	Want string `json:"want"`
	// Rule is the contract's rule, and the consequence of breaking it.
	Rule string `json:"rule"`
}

// String returns the finding as one line: "MUST spec.scope: found Cluster, want Namespaced (rule)".
func (f Finding) String() string {
	return fmt.Sprintf("%s %s: found %s, want %s (%s)", f.Level, f.Path, f.Found, f.Want, f.Rule)
}

// sorted orders findings, MUST before SHOULD, and drops duplicates for a path: two fields may have the same broken parent, and two
// contracts may require the same field.
func sorted(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Want, b.Want),
			cmp.Compare(a.Found, b.Found), cmp.Compare(a.Rule, b.Rule))
	})
	return slices.CompactFunc(findings, func(a, b Finding) bool {
		a.Rule, b.Rule = "", ""
		return a == b
	})
}

// CheckObject lints an object of a provider against one contract version. Fields that the provider has not written yet are not missing: a
// new object breaks no rule, and one that reports completion must have the other required fields. It accepts any JSON object, neither
// changes nor retains it, and is deterministic.
func CheckObject(obj *unstructured.Unstructured, role Role, version contract.Version) Report {
	j := judgeOf(role)
	places := placesOf(role, version)
	switch {
	case obj == nil || obj.Object == nil:
		j.find(Must, "kind", nothing, "an object", "All resources: TypeMeta: an object has a kind")
		return j.report()
	case places == nil:
		j.find(Must, "kind", fmt.Sprintf("role %s of contract %q", role, string(version)), "a role and a contract that have rules",
			"the caller chose what has no rules")
		return j.report()
	}
	j.Judged = append(j.Judged, Judged{APIVersion: obj.GroupVersionKind().Version, Contract: version})
	for _, key := range []string{"apiVersion", "kind"} {
		if textAt(obj.Object, key) == "" {
			j.find(Must, key, nothing, typeString, "All resources: TypeMeta: an object has an API version and a kind")
		}
	}
	for _, p := range places {
		j.value(obj.Object, version, p)
	}
	j.state(obj.Object, version)
	return j.report()
}

// value checks one field with its readers.
func (j *judge) value(obj map[string]any, v contract.Version, p place) {
	_, errs := p.Read(obj)
	rule := j.about(v, p.rule.name) + "a value of another type cannot be read"
	for _, err := range errs {
		if e, ok := errors.AsType[*contract.FieldError](err); ok { // no other error matches ErrWrongType
			j.find(Must, e.Path.String(), e.Got, e.Want, rule)
		}
	}
}
