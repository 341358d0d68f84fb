package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Version is a version of Cluster API's provider contract.
type Version string

// The contract versions that this package reads.
const (
	V1Beta1 Version = "v1beta1"
	V1Beta2 Version = "v1beta2"
)

// LabelPrefix stands before the contract version in the label of a CRD that names the API versions which fulfil it:
// `cluster.x-k8s.io/v1beta1: v1beta1_v1beta2`. Rule: contract page "API version labels".
const LabelPrefix = "cluster.x-k8s.io/"

// ErrNoContract matches the error of Resolve for a CRD without a label of a supported contract.
var ErrNoContract = errors.New("no supported contract label")

// Versions returns the supported contract versions, newest first. The slice is the caller's.
func Versions() []Version { return []Version{V1Beta2, V1Beta1} }

// Resolved says how to read the objects of a CRD: with the paths of Contract, at APIVersion of its group.
type Resolved struct {
	// Contract is the contract version whose layouts apply.
	Contract Version
	// APIVersion is a version of the CRD's group, without the group: "v1alpha3".
	APIVersion string
}

// Resolve picks the newest supported contract of a CRD from its labels, and of the API versions that fulfil it the highest
// (GA before beta before alpha, then by number). It depends on nothing but the labels, so that an API version which stands
// under two contracts is always read with the newer one. A label without a version counts as missing. The error matches
// ErrNoContract and says which label is wanted.
func Resolve(crd string, labels map[string]string) (Resolved, error) {
	for _, contract := range Versions() {
		names := strings.FieldsFunc(labels[LabelPrefix+string(contract)], func(r rune) bool { return r == '_' })
		if len(names) == 0 {
			continue
		}
		highest := slices.MaxFunc(names, version.CompareKubeAwareVersionStrings)
		return Resolved{Contract: contract, APIVersion: highest}, nil
	}
	return Resolved{}, fmt.Errorf("CustomResourceDefinition %s has %w: its provider must set %s%s to the API versions that fulfil it",
		crd, ErrNoContract, LabelPrefix, V1Beta2)
}

// CRDName returns the name that the contract demands of the CustomResourceDefinition of a kind: the plural of the
// lower-case kind and the group. Cluster API finds CRDs by this name (util/contract CalculateCRDName). Only regular plurals
// are known, not "indices" or "people": kinds that end in Machine, Config or Template, as the contract has them, are regular.
func CRDName(gk schema.GroupKind) string { return plural(strings.ToLower(gk.Kind)) + "." + gk.Group }

// plural follows the regular part of the English rules that Kubernetes generators use.
func plural(word string) string {
	switch {
	case word == "":
		return word
	case strings.HasSuffix(word, "y") && len(word) > 1 && !strings.ContainsRune("aeiou", rune(word[len(word)-2])):
		return word[:len(word)-1] + "ies"
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "x"), strings.HasSuffix(word, "z"),
		strings.HasSuffix(word, "ch"), strings.HasSuffix(word, "sh"):
		return word + "es"
	default:
		return word + "s"
	}
}
