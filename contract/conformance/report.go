package conformance

import (
	"cmp"
	"slices"

	"github.com/machinist-dev/machinist/contract"
)

// Report is everything that was looked at. Its lists are never nil.
type Report struct {
	// Role is what the kind was judged as.
	Role Role `json:"role"`
	// Judged lists which API version was judged by which contract, newest contract first.
	Judged []Judged `json:"judged"`
	// Passed lists the rules that hold, sorted by place.
	Passed []Pass `json:"passed"`
	// Findings lists where rules do not hold: MUST before SHOULD, then sorted by place; at most MaxFindings.
	Findings []Finding `json:"findings"`
}

// Judged says which contract an API version, without its group, was judged by.
type Judged struct {
	APIVersion string           `json:"apiVersion"`
	Contract   contract.Version `json:"contract"`
}

// Pass is a rule that holds.
type Pass struct {
	// Path is the place, as in a Finding.
	Path string `json:"path"`
	// Fact is what is so: "boolean".
	Fact string `json:"fact"`
}

// MaxFindings bounds the findings about one CRD or object. What is cut off comes last in their order.
const MaxFindings = 100

// judge collects what holds and what does not.
type judge struct {
	role     Role
	judged   []Judged
	passed   []Pass
	findings []Finding
}

func (j *judge) report() Report {
	slices.SortFunc(j.passed, func(a, b Pass) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Fact, b.Fact)) })
	findings := sorted(j.findings)
	return Report{ // lists that are empty and not nil, for readers of JSON
		Role:     j.role,
		Judged:   append([]Judged{}, j.judged...),
		Passed:   append([]Pass{}, slices.Compact(j.passed)...),
		Findings: append([]Finding{}, findings[:min(len(findings), MaxFindings)]...),
	}
}

func (j *judge) find(level Level, path, found, want, rule string) {
	j.findings = append(j.findings, Finding{Level: level, Path: path, Found: found, Want: want, Rule: rule})
}

func (j *judge) pass(path, fact string) { j.passed = append(j.passed, Pass{Path: path, Fact: fact}) }

// expect passes a MUST about one text, or finds that it does not hold.
func (j *judge) expect(path, found, want, rule string) {
	if found == want {
		j.pass(path, clip(want))
		return
	}
	if found == "" {
		found = nothing
	}
	j.find(Must, path, clip(found), clip(want), rule)
}
