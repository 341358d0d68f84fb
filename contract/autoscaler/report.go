package autoscaler

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// maxAlike is how many places are named that break one rule in the same way; the next one says how many more there are.
const maxAlike = 10

// nothing is what stands at a place that is missing.
const nothing = "nothing"

// report collects findings.
type report struct {
	findings []conformance.Finding
	// mild makes a SHOULD of every MUST: the object is no group, so that what would break a group breaks nothing yet.
	mild bool
}

func (r *report) add(level conformance.Level, path, found, want, rule string) {
	r.findings = append(r.findings, conformance.Finding{Level: level, Path: path, Found: found, Want: want, Rule: rule})
}

// must adds what breaks a group.
func (r *report) must(path, found, want, rule string) {
	r.add(r.breaking(), path, found, want, rule)
}

func (r *report) should(path, found, want, rule string) {
	r.add(conformance.Should, path, found, want, rule)
}

func (r *report) breaking() conformance.Level {
	if r.mild {
		return conformance.Should
	}
	return conformance.Must
}

// errors adds one finding for every FieldError and AnnotationError in a tree of errors. of names the object when it is not the
// checked one. An AnnotationError brings its own rule.
func (r *report) errors(level conformance.Level, of string, err error, rule string) {
	// The tree is walked here: errors.As would stop at the first of several.
	switch part := err.(type) { //nolint:errorlint // see above
	case nil:
	case *AnnotationError:
		r.annotation(level, part)
	case *contract.FieldError:
		r.add(level, of+part.Path.String(), part.Got, part.Want, rule)
	case interface{ Unwrap() []error }:
		for _, inner := range part.Unwrap() {
			r.errors(level, of, inner, rule)
		}
	case interface{ Unwrap() error }:
		r.errors(level, of, part.Unwrap(), rule)
	}
}

func (r *report) annotation(level conformance.Level, e *AnnotationError) {
	r.add(level, annotationPath(e.Key), e.Found, e.Want, e.Effect)
}

// sorted returns the findings in the order of level and place, none twice, and of those that are alike only the first ones.
func (r *report) sorted() []conformance.Finding {
	slices.SortFunc(r.findings, func(a, b conformance.Finding) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Want, b.Want),
			cmp.Compare(a.Found, b.Found), cmp.Compare(a.Rule, b.Rule))
	})
	all := slices.Compact(r.findings)
	type kind struct {
		level      conformance.Level
		want, rule string
	}
	alike := map[kind]int{}
	for _, f := range all {
		alike[kind{f.Level, f.Want, f.Rule}]++
	}
	var kept []conformance.Finding
	seen := map[kind]int{}
	for _, f := range all {
		k := kind{f.Level, f.Want, f.Rule}
		seen[k]++
		if more := alike[k] - maxAlike - 1; seen[k] == maxAlike+1 && more > 0 {
			f.Found += fmt.Sprintf(", and the like at %d more places", more)
		}
		if seen[k] <= maxAlike+1 {
			kept = append(kept, f)
		}
	}
	return kept
}

func annotationPath(key string) string {
	return contract.NewPath("metadata", "annotations", key).String()
}

func labelPath(key string) string { return contract.NewPath("metadata", "labels", key).String() }

// of begins the path of a finding about another object than the checked one.
func of(obj *unstructured.Unstructured) string { return name(obj) + ": " }
