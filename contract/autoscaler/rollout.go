package autoscaler

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RollingOut reports whether the autoscaler takes a MachineDeployment for one that is rolling out; it then removes none of its
// Nodes. It looks at the MachineSets of the namespace with DeploymentNameLabel: one that does not carry the highest
// RevisionAnnotation, and has or wants replicas, is old. MachineSets that carry no revision are all old, so that without any
// revision the Nodes are never removed.
//
// The error is about a revision or replicas that cannot be read, and matches ErrAnnotation or contract.ErrWrongType.
func RollingOut(deployment *unstructured.Unstructured, machineSets []*unstructured.Unstructured) (bool, error) {
	var sets []*unstructured.Unstructured
	var latest int64
	for _, set := range machineSets {
		if set.GetNamespace() != deployment.GetNamespace() || set.GetLabels()[DeploymentNameLabel] != deployment.GetName() {
			continue
		}
		revision, problem := revisionOf(set)
		if problem != nil {
			return false, describeError(set, problem)
		}
		sets = append(sets, set)
		latest = max(latest, revision)
	}
	for _, set := range sets {
		if carries(set, latest) {
			continue
		}
		wanted, _, wantedErr := replicasPath.Get(set.Object)
		existing, _, existingErr := statusReplicasPath.Get(set.Object)
		if err := errors.Join(wantedErr, existingErr); err != nil {
			return false, describeError(set, err)
		}
		if wanted > 0 || existing > 0 {
			return true, nil
		}
	}
	return false, nil
}

// revisionOf reads the revision of a MachineSet; absent is 0.
func revisionOf(set *unstructured.Unstructured) (int64, *AnnotationError) {
	text, found := set.GetAnnotations()[RevisionAnnotation]
	if !found {
		return 0, nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, &AnnotationError{Key: RevisionAnnotation, Found: quoted(text), Want: "a whole number",
			Effect: "the autoscaler removes no Node of the MachineDeployment"}
	}
	return revision, nil
}

// carries reports whether a MachineSet has a revision as the autoscaler compares it: as text, so "02" is not 2.
func carries(set *unstructured.Unstructured, revision int64) bool {
	return set.GetAnnotations()[RevisionAnnotation] == strconv.FormatInt(revision, 10)
}
