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

// The contract versions that this package has layouts for. Resolve finds providers of V1Alpha3 and V1Alpha4 only on request: see
// AllVersions.
const (
	V1Alpha3 Version = "v1alpha3"
	V1Alpha4 Version = "v1alpha4"
	V1Beta1  Version = "v1beta1"
	V1Beta2  Version = "v1beta2"
)

// LabelPrefix is the prefix of the CRD label for a contract version. The value of the label lists the API versions that fulfil the
// contract: `cluster.x-k8s.io/v1beta1: v1beta1_v1beta2`. Rule: contract page "API version labels".
const LabelPrefix = "cluster.x-k8s.io/"

// Label returns the key of the CRD label for this contract.
func (v Version) Label() string { return LabelPrefix + string(v) }

// Versions returns the contract versions that Resolve supports by default, newest first: those of Cluster API v1.11 and later. The caller
// owns the slice.
func Versions() []Version { return []Version{V1Beta2, V1Beta1} }

// AllVersions returns every contract version that this package has layouts for, newest first. Use it for providers that Cluster API itself
// no longer supports: Resolve(crd, labels, AllVersions()...), or Options.ContractVersions of the reconcilers. The caller owns the slice.
func AllVersions() []Version { return []Version{V1Beta2, V1Beta1, V1Alpha4, V1Alpha3} }

// Reasons of a ResolveError: why the objects of a kind cannot be read. Match them with errors.Is.
var (
	// ErrNoContract matches every problem with the contract labels of an existing CRD.
	ErrNoContract = errors.New("no supported contract")
	// ErrNoCRD matches when the CRD does not exist. It is different from NotFound of apimachinery: see MissingCRD.
	ErrNoCRD = errors.New("the CustomResourceDefinition does not exist")
)

// ResolveError reports why the CRD of a kind does not allow its objects to be read, and the remedy.
type ResolveError struct {
	// Reason is ErrNoCRD or ErrNoContract.
	Reason error
	// CRD is the name of the CustomResourceDefinition.
	CRD string
	// Label is the key of the label to set or to correct; empty when the CRD is missing.
	Label string
	// Remedy is what a person can do, as the end of a sentence.
	Remedy string
	// what describes the problem with the CRD.
	what string
}

// Error returns the CRD, the problem and the remedy.
func (e *ResolveError) Error() string {
	return "CustomResourceDefinition " + e.CRD + " " + e.what + ": " + e.Remedy
}

// Unwrap returns the reason.
func (e *ResolveError) Unwrap() error { return e.Reason }

// MissingCRD returns the error for a missing CRD of a kind. It matches ErrNoCRD, and apierrors.IsNotFound is false for it: a missing kind
// must not be taken for a missing object, which may be a reason to delete or to create. Cluster API makes the same distinction.
func MissingCRD(gk schema.GroupKind) error {
	return &ResolveError{Reason: ErrNoCRD, CRD: CRDName(gk), what: "does not exist", Remedy: fmt.Sprintf(
		"install the provider of %s, whose CustomResourceDefinition must have this name, or correct the reference", gk)}
}

// Resolved is how to read the objects of a CRD: with the layouts of Contract, at APIVersion of its group.
type Resolved struct {
	// Contract is the contract version whose layouts apply.
	Contract Version
	// APIVersion is a version of the CRD's group, without the group: "v1alpha3".
	APIVersion string
}

// Resolve selects the newest contract from the labels of a CRD, and the highest API version that fulfils it (GA before beta before alpha,
// then by number). It considers the given contracts in any order, or Versions() when none is given. The result depends on nothing else, so
// an API version with two contracts is always read with the newer one. Invalid names of API versions are ignored. A label without a valid
// name counts as empty, and the next older contract is tried. The error is a ResolveError that matches ErrNoContract. Rule: contract page
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

// newestFirst returns the contracts to consider, newest first.
func newestFirst(contracts []Version) []Version {
	if len(contracts) == 0 {
		return Versions()
	}
	contracts = slices.Clone(contracts) // the caller's
	slices.SortFunc(contracts, func(a, b Version) int { return -compareVersions(string(a), string(b)) })
	return contracts
}

// compareVersions also orders texts that mean the same version, such as v1 and v01.
func compareVersions(a, b string) int {
	if c := version.CompareKubeAwareVersionStrings(a, b); c != 0 {
		return c
	}
	return strings.Compare(b, a)
}

// listed yields the API versions in the value of a contract label. The name of a CRD version is a DNS label, so any other text is a
// mistake.
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

// unlabelled returns the error for a CRD whose labels list no API version of the given contracts.
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

// IsVersion reports whether the Kubernetes version of a kubelet or a control plane matches the wanted one. A leading v and white space are
// ignored. A suffix of a distribution, as in v1.36.3+k3s1 or v1.36.3-eks-1234, is compared only if wanted has one. A wanted version without
// a patch matches every patch. A pre-release, such as v1.36.0-rc.1, is a different version. An empty wanted version matches everything;
// otherwise an empty reported version matches nothing.
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

// isPreRelease reports whether the text after the first hyphen of a version is a Kubernetes pre-release.
func isPreRelease(suffix string) bool {
	return strings.HasPrefix(suffix, "alpha") || strings.HasPrefix(suffix, "beta") || strings.HasPrefix(suffix, "rc")
}
