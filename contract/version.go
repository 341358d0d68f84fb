package contract

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"
)

// Version is a version of Cluster API's provider contract.
type Version string

// The contract versions that this package has layouts for. A provider of V1Alpha3 or V1Alpha4 is only found by those who ask
// for them: see AllVersions.
const (
	V1Alpha3 Version = "v1alpha3"
	V1Alpha4 Version = "v1alpha4"
	V1Beta1  Version = "v1beta1"
	V1Beta2  Version = "v1beta2"
)

// LabelPrefix stands before the contract version in the label of a CRD that names the API versions which fulfil it:
// `cluster.x-k8s.io/v1beta1: v1beta1_v1beta2`. Rule: contract page "API version labels".
const LabelPrefix = "cluster.x-k8s.io/"

// Label returns the key of the label with which a CRD says that it fulfils this contract.
func (v Version) Label() string { return LabelPrefix + string(v) }

// Versions returns the contract versions that Resolve honours unless it is told otherwise, newest first: those that Cluster API v1.11 and
// later honour. The slice is the caller's.
func Versions() []Version { return []Version{V1Beta2, V1Beta1} }

// AllVersions returns every contract version that this package has layouts for, newest first, for those who still have
// providers that Cluster API itself has given up: Resolve(crd, labels, AllVersions()...), or Options.ContractVersions of the
// reconcilers. The slice is the caller's.
func AllVersions() []Version { return []Version{V1Beta2, V1Beta1, V1Alpha4, V1Alpha3} }

// Why the objects of a kind cannot be read. A ResolveError carries one of them; match with errors.Is.
var (
	// ErrNoContract matches every trouble with the contract labels of a CRD that exists.
	ErrNoContract = errors.New("no supported contract")
	// ErrNoCRD matches when the CRD does not exist. It is not what the API machinery calls NotFound: see MissingCRD.
	ErrNoCRD = errors.New("the CustomResourceDefinition does not exist")
)

// ResolveError says what is wrong with the CRD of a kind, so that its objects cannot be read, and what a person can do.
type ResolveError struct {
	// Reason is ErrNoCRD or ErrNoContract.
	Reason error
	// CRD is the name of the CustomResourceDefinition.
	CRD string
	// Label is the key of the label to set or to correct; empty when the CRD is missing.
	Label string
	// Remedy says what a person can do, as the end of a sentence.
	Remedy string
	// what is wrong with the CRD, in words.
	what string
}

// Error names the CRD, the label and the remedy.
func (e *ResolveError) Error() string {
	return "CustomResourceDefinition " + e.CRD + " " + e.what + ": " + e.Remedy
}

// Unwrap returns the reason.
func (e *ResolveError) Unwrap() error { return e.Reason }

// MissingCRD returns the error for a caller that looked for the CRD of a kind and found none. It matches
// ErrNoCRD and wraps nothing of that answer: apierrors.IsNotFound is false for it, so that "the kind is missing" is never
// taken for "the object is missing", which may be a reason to destroy or to create. Cluster API draws the same line.
func MissingCRD(gk schema.GroupKind) error {
	return &ResolveError{Reason: ErrNoCRD, CRD: CRDName(gk), what: "does not exist", Remedy: fmt.Sprintf(
		"install the provider of %s, whose CustomResourceDefinition must have this name, or correct the reference", gk)}
}

// Resolved says how to read the objects of a CRD: with the paths of Contract, at APIVersion of its group.
type Resolved struct {
	// Contract is the contract version whose layouts apply.
	Contract Version
	// APIVersion is a version of the CRD's group, without the group: "v1alpha3".
	APIVersion string
}

// Resolve picks the newest contract of a CRD from its labels, and of the API versions that fulfil it the highest (GA before
// beta before alpha, then by number). It honours the given contracts, in whatever order they are given, and Versions() when
// none is given. It depends on nothing else, so that an API version which stands under two contracts is always read with the
// newer one. What is no name of an API version is passed over, and a label without one counts as empty: an older contract
// is looked for. The error is a ResolveError that matches ErrNoContract. Rule: contract page
// "API version labels".
func Resolve(crd string, labels map[string]string, contracts ...Version) (Resolved, error) {
	contracts = newestFirst(contracts)
	for _, contract := range contracts {
		if highest := highestListed(labels[contract.Label()]); highest != "" {
			return Resolved{Contract: contract, APIVersion: highest}, nil
		}
	}
	return Resolved{}, unlabelled(crd, labels, contracts)
}

// newestFirst returns the contracts to honour, in their order.
func newestFirst(contracts []Version) []Version {
	if len(contracts) == 0 {
		return Versions()
	}
	contracts = slices.Clone(contracts) // the caller's
	slices.SortFunc(contracts, func(a, b Version) int { return -compareVersions(string(a), string(b)) })
	return contracts
}

// compareVersions gives an order to texts that mean the same too, such as v1 and v01.
func compareVersions(a, b string) int {
	if c := version.CompareKubeAwareVersionStrings(a, b); c != 0 {
		return c
	}
	return strings.Compare(b, a)
}

// listed yields the API versions in the value of a contract label. A CRD cannot have a version whose name is no DNS label, so
// anything else in there is a slip.
func listed(label string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range strings.SplitSeq(label, "_") {
			if name != "" && len(validation.IsDNS1035Label(name)) == 0 && !yield(name) {
				return
			}
		}
	}
}

func highestListed(label string) string {
	highest := ""
	for name := range listed(label) {
		if highest == "" || compareVersions(name, highest) > 0 {
			highest = name
		}
	}
	return highest
}

// unlabelled is the error for a CRD whose labels name no API version of an honoured contract.
func unlabelled(crd string, labels map[string]string, honoured []Version) error {
	for _, contract := range honoured {
		if value, found := labels[contract.Label()]; found {
			return &ResolveError{Reason: ErrNoContract, CRD: crd, Label: contract.Label(),
				what:   fmt.Sprintf("has the contract label %s with value %q, which names no API version", contract.Label(), value),
				Remedy: "its provider must set it to the API versions that fulfil the contract, joined by underscores"}
		}
	}
	wanted := honoured[0].Label()
	remedy := "its provider must set " + wanted + " to the API versions that fulfil it"
	outdated := slices.DeleteFunc(AllVersions(), func(v Version) bool {
		return compareVersions(string(v), string(honoured[0])) >= 0 || highestListed(labels[v.Label()]) == ""
	})
	if len(outdated) > 0 {
		remedy += fmt.Sprintf("; this version of the provider fulfils only contract %s, so upgrade it", outdated[0])
	}
	return &ResolveError{Reason: ErrNoContract, CRD: crd, Label: wanted, what: "has no supported contract label", Remedy: remedy}
}

// IsVersion reports whether a Kubernetes version that a kubelet or a control plane reports is the wanted one. A leading v and blanks do
// not matter. What distributions append, as in v1.36.3+k3s1 or v1.36.3-eks-1234, matters only where it is wanted, and a wanted version
// without a patch is that of every patch. A pre-release, such as v1.36.0-rc.1, is another version. The empty text wants nothing in
// particular; an empty report is no version.
func IsVersion(reported, wanted string) bool {
	reported, wanted = bareVersion(reported), bareVersion(wanted)
	if wanted == "" {
		return true
	}
	rest, found := strings.CutPrefix(reported, wanted)
	if !strings.ContainsAny(wanted, "+-") && strings.Count(wanted, ".") == 1 {
		if patch, has := strings.CutPrefix(rest, "."); has && patch != "" {
			rest = strings.TrimLeft(patch, "0123456789")
		}
	}
	return found && (rest == "" || rest[0] == '+' || rest[0] == '-' && !isPreRelease(rest[1:]))
}

func bareVersion(text string) string { return strings.TrimPrefix(strings.TrimSpace(text), "v") }

// isPreRelease reports whether what follows the first hyphen of a version is Kubernetes' own word for one that is yet to be released.
func isPreRelease(suffix string) bool {
	return strings.HasPrefix(suffix, "alpha") || strings.HasPrefix(suffix, "beta") || strings.HasPrefix(suffix, "rc")
}
