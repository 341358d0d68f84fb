package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/machinist-dev/machinist/contract"
)

// claim is what a label says: that an API version fulfils a contract.
type claim struct {
	contract contract.Version
	version  apiVersion
	// read is the highest version of the label when that is another one, which Cluster API reads in place of this one.
	read string
	// newest is what Cluster API reads by the newest label.
	newest contract.Resolved
}

const ruleLabels = "API version labels: "

// labels judges the contract labels and returns what they claim, newest contract and highest API version first.
func (j *judge) labels(crd map[string]any, name string, versions []apiVersion) []claim {
	labels := j.labelTexts(crd)
	resolved, err := contract.Resolve(name, labels)
	if err != nil {
		j.unlabelled(err)
		return nil
	}
	return j.claims(labels, versions, resolved)
}

// labelTexts returns the labels that are text, and finds those of contracts that are not.
func (j *judge) labelTexts(crd map[string]any) map[string]string {
	texts := map[string]string{}
	for _, v := range contract.AllVersions() {
		text, found, err := contract.At[string]("metadata", "labels", v.Label()).Get(crd)
		e, wrong := errors.AsType[*contract.FieldError](err)
		if found || wrong && e.Got == "null" { // which is no text in a map of texts
			texts[v.Label()] = text
			continue
		}
		if wrong {
			path := labelPath(v.Label())
			if len(e.Path.Segments()) < 3 {
				path = e.Path.String() // what the labels are in
			}
			j.find(Must, path, e.Got, e.Want, ruleLabels+"a label is text")
		}
	}
	return texts
}

func labelPath(label string) string { return "metadata.labels[" + label + "]" }

// unlabelled finds that no label can be used.
func (j *judge) unlabelled(err error) {
	e, ok := errors.AsType[*contract.ResolveError](err)
	if !ok {
		return // Resolve returns no other error
	}
	found := nothing
	if errors.Is(err, contract.ErrEmptyContractLabel) {
		found = fmt.Sprintf("%q", e.Found)
	}
	j.find(Must, labelPath(e.Label), found, "the API versions that fulfil the contract, such as v1beta1 or v1beta1_v1beta2",
		ruleLabels+"without them Cluster API does not know which version to read; "+e.Remedy+
			"; if a kustomization sets them, lint what kustomize build prints")
}

// claims judges what the labels list.
func (j *judge) claims(labels map[string]string, versions []apiVersion, read contract.Resolved) []claim {
	var claims []claim
	for _, c := range contract.Versions() {
		value, there := labels[c.Label()]
		names := listed(value)
		if there && len(names) == 0 {
			j.find(Should, labelPath(c.Label()), fmt.Sprintf("%q", clip(value)), "the API versions that fulfil the contract, or no such label",
				ruleLabels+"an empty label is passed over")
		}
		for _, name := range names {
			level, why := Should, "Cluster API reads "+read.APIVersion+" and never looks for this one, which the label may no longer name"
			if c == read.Contract && name == read.APIVersion {
				level, why = Must, "Cluster API reads the highest version that the newest label names, whether it exists or not"
			}
			if v, ok := j.available(c, name, versions, level, why); ok {
				claims = append(claims, claim{contract: c, version: v, read: higher(c, labels, name), newest: read})
			}
		}
	}
	return claims
}

// higher returns the version that Cluster API reads by a contract when it is not this one.
func higher(c contract.Version, labels map[string]string, name string) string {
	if resolved, err := contract.Resolve("", labels, c); err == nil && resolved.APIVersion != name {
		return resolved.APIVersion
	}
	return ""
}

// available finds the version of a CRD that a label names.
func (j *judge) available(c contract.Version, name string, versions []apiVersion, level Level, why string) (apiVersion, bool) {
	i := slices.IndexFunc(versions, func(v apiVersion) bool { return v.name == name })
	what := ", which spec.versions does not have"
	if i >= 0 && versions[i].served {
		return versions[i], true
	} else if i >= 0 {
		what = ", which is not served"
	}
	j.find(level, labelPath(c.Label()), clip(name)+what, "one of "+servedNames(versions), ruleLabels+why)
	return apiVersion{}, false
}

func servedNames(versions []apiVersion) string {
	var names []string
	for _, v := range versions {
		if v.served {
			names = append(names, clip(v.name))
		}
	}
	return cmp.Or(strings.Join(names, ", "), "the served versions, of which there is none")
}

// listed returns the names in a label's value, highest first and each once.
func listed(value string) []string {
	const most = 1 << 10 // a label holds at most 63 characters
	unique := map[string]bool{}
	for name := range strings.SplitSeq(value[:min(len(value), most)], "_") {
		if name != "" {
			unique[name] = true
		}
	}
	return slices.SortedFunc(maps.Keys(unique), func(a, b string) int {
		return cmp.Or(-version.CompareKubeAwareVersionStrings(a, b), cmp.Compare(a, b))
	})
}
