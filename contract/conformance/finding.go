package conformance

import (
	"cmp"
	"fmt"
	"slices"
)

// Level says how much a rule of the contract binds. The zero Level is none of them.
type Level string

const (
	// Must is a rule without which Cluster API does not work with the provider.
	Must Level = "MUST"
	// Should is a rule that costs people something when it is broken: a condition that is not shown, for instance.
	Should Level = "SHOULD"
)

// Finding is one place where a CRD or an object does not keep a rule.
type Finding struct {
	// Level says whether the rule is a MUST or a SHOULD of the contract.
	Level Level `json:"level"`
	// Path is the place, in dots: "status.initialization.provisioned". In a CRD the API version stands before it, as in
	// "spec.versions[v1beta2]: status.initialization.provisioned".
	Path string `json:"path"`
	// Found is what stands there; "nothing" when the place is missing.
	Found string `json:"found"`
	// Want is what the rule asks for.
	Want string `json:"want"`
	// Rule is the contract's rule, with what goes wrong when it is broken.
	Rule string `json:"rule"`
}

// String returns the finding as one line: "MUST spec.scope: found Cluster, want Namespaced (rule)".
func (f Finding) String() string {
	return fmt.Sprintf("%s %s: found %s, want %s (%s)", f.Level, f.Path, f.Found, f.Want, f.Rule)
}

// compare orders MUST before SHOULD, and then by place and text.
func (f Finding) compare(other Finding) int {
	return cmp.Or(
		cmp.Compare(f.Level, other.Level), cmp.Compare(f.Path, other.Path), cmp.Compare(f.Want, other.Want),
		cmp.Compare(f.Found, other.Found), cmp.Compare(f.Rule, other.Rule))
}

// sorted orders findings and drops those that say the same about a place: two fields may stand behind one broken parent, and
// two contracts may miss the same thing.
func sorted(findings []Finding) []Finding {
	slices.SortFunc(findings, Finding.compare)
	return slices.CompactFunc(findings, func(a, b Finding) bool {
		a.Rule, b.Rule = "", ""
		return a == b
	})
}
