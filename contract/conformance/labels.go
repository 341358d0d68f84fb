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
	// label is empty when nothing was claimed and the contract is a guess.
	label string
	// read is the highest version of the label when that is another one, which Cluster API reads in place of this one.
	read string
}

const ruleLabels = "API version labels: "

// labels judges the contract labels and returns what they claim, newest contract and highest API version first.
func (j *judge) labels(crd map[string]any, name string, versions []apiVersion) []claim {
	labels := j.labelTexts(crd)
	resolved, err := contract.Resolve(name, labels)
	if err != nil {
		j.unlabelled(err)
		if claims := j.claims(labels, versions, obsolete(), contract.Resolved{}); len(claims) > 0 {
			return claims
		}
		return j.guesses(versions)
	}
	claims := j.claims(labels, versions, contract.Versions(), resolved)
	if len(claims) > 0 && claims[0].contract == resolved.Contract && claims[0].version.name == resolved.APIVersion {
		j.pass(labelPath(resolved.Contract.Label()), "names "+resolved.APIVersion+", which is served")
	}
	return claims
}

// obsolete lists the contracts that have a layout but that Cluster API no longer honours.
func obsolete() []contract.Version {
	return slices.DeleteFunc(contract.AllVersions(), func(v contract.Version) bool { return slices.Contains(contract.Versions(), v) })
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
	label, found, remedy := contract.Versions()[0].Label(), nothing, err.Error()
	if e, ok := errors.AsType[*contract.ResolveError](err); ok {
		label, remedy = e.Label, e.Remedy
		if errors.Is(err, contract.ErrEmptyContractLabel) {
			found = fmt.Sprintf("%q", e.Found)
		}
	}
	j.find(Must, labelPath(label), found, "the API versions that fulfil the contract, such as v1beta1 or v1beta1_v1beta2",
		ruleLabels+"without them Cluster API does not know which version to read; "+remedy)
}

// claims judges what the labels of some contracts list.
func (j *judge) claims(labels map[string]string, versions []apiVersion, contracts []contract.Version, read contract.Resolved) []claim {
	var claims []claim
	for _, c := range contracts {
		value, there := labels[c.Label()]
		names := listed(value)
		if there && len(names) == 0 && read.Contract != "" {
			j.find(Should, labelPath(c.Label()), fmt.Sprintf("%q", clip(value)), "the API versions that fulfil the contract, or no such label",
				ruleLabels+"an empty label is passed over")
		}
		for _, name := range names {
			level, why := Should, "Cluster API reads "+read.APIVersion+" and never looks for this one, which the label may no longer name"
			if c == read.Contract && name == read.APIVersion {
				level, why = Must, "Cluster API reads the highest version that the newest label names, whether it exists or not"
			}
			if v, ok := j.available(c, name, versions, level, why); ok {
				claims = append(claims, claim{contract: c, version: v, label: c.Label(), read: higher(c, labels, name)})
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
	switch {
	case i < 0:
		j.find(level, labelPath(c.Label()), clip(name)+", which spec.versions does not have", "one of "+servedNames(versions), ruleLabels+why)
		return apiVersion{}, false
	case !versions[i].served:
		j.find(level, labelPath(c.Label()), clip(name)+", which is not served", "one of "+servedNames(versions), ruleLabels+why)
		return apiVersion{}, false
	default:
		return versions[i], true
	}
}

func servedNames(versions []apiVersion) string {
	var names []string
	for _, v := range versions {
		if v.served {
			names = append(names, clip(v.name))
		}
	}
	if len(names) == 0 {
		return "the served versions, of which there is none"
	}
	return strings.Join(names, ", ")
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

// guesses chooses a contract for each served version of a CRD without labels, so that one finding does not hide the others:
// the contract with the fewest broken rules, of several the one with the version's own name, and then the newest.
func (j *judge) guesses(versions []apiVersion) []claim {
	var claims []claim
	for _, v := range versions {
		if !v.served {
			continue
		}
		best, fewest := contract.Version(""), 0
		for _, c := range contract.Versions() {
			trial := judge{role: j.role}
			trial.fields(claim{contract: c, version: v})
			broken := len(trial.findings)
			if best == "" || broken < fewest || broken == fewest && string(c) == v.name {
				best, fewest = c, broken
			}
		}
		claims = append(claims, claim{contract: best, version: v})
	}
	slices.SortStableFunc(claims, func(a, b claim) int {
		return -version.CompareKubeAwareVersionStrings(a.version.name, b.version.name)
	})
	return claims
}
