package conformance

import (
	"cmp"

	"github.com/machinist-dev/machinist/contract"
)

// Report is everything that was looked at. Its lists are never nil.
type Report struct {
	// Role is what the kind was judged as.
	Role Role `json:"role"`
	// Judged lists which API version was judged by which contract, newest contract first.
	Judged []Judged `json:"judged"`
	// Findings lists where rules do not hold: MUST before SHOULD, then sorted by place; at most MaxFindings.
	Findings []Finding `json:"findings"`
}

// Judged says which contract an API version, without its group, was judged by.
type Judged struct {
	APIVersion string           `json:"apiVersion"`
	Contract   contract.Version `json:"contract"`
}

// MaxFindings bounds the findings about one CRD or object. What is cut off comes last in their order.
const MaxFindings = 100

// judge collects what does not hold.
type judge struct {
	role     Role
	judged   []Judged
	findings []Finding
}

func (j *judge) report() Report {
	findings := sorted(j.findings)
	return Report{ // lists that are empty and not nil, for readers of JSON
		Role:     j.role,
		Judged:   append([]Judged{}, j.judged...),
		Findings: append([]Finding{}, findings[:min(len(findings), MaxFindings)]...),
	}
}

func (j *judge) find(level Level, path, found, want, rule string) {
	j.findings = append(j.findings, Finding{Level: level, Path: path, Found: found, Want: want, Rule: rule})
}

// expect finds a text that is not the wanted one.
func (j *judge) expect(path, found, want, rule string) {
	if found != want {
		j.find(Must, path, clip(cmp.Or(found, nothing)), clip(want), rule)
	}
}
