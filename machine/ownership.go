package machine

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// own returns the owner references of an object that this Machine is to control. Sets that created the object for the
// Machine give it up; any other controller is a conflict, named by foreign, and nothing changes. References of other
// owners that are not controllers stay. Rule: InfraMachine contract, "OwnerReferences".
func own(have []metav1.OwnerReference, machine metav1.OwnerReference) (want []metav1.OwnerReference, changed bool, foreign *metav1.OwnerReference) {
	for i := range have {
		ref := have[i]
		switch {
		case ref.UID == machine.UID:
			continue
		case createdForMachine(ref, machine):
			continue
		case ref.Controller != nil && *ref.Controller:
			return nil, false, &ref
		}
		want = append(want, ref)
	}
	want = append(want, machine)
	return want, !sameOwners(have, want), nil
}

// ownershipPatch is the metadata to write into an object so that it has the given owners and belongs to the cluster, nil when
// nothing is to be written. Owners replace a list, so the patch only applies to the version that was read.
func ownershipPatch(obj metav1.Object, owners []metav1.OwnerReference, changed bool, cluster string) map[string]any {
	metadata := map[string]any{"uid": string(obj.GetUID())}
	if changed {
		metadata["ownerReferences"] = owners
		metadata["resourceVersion"] = obj.GetResourceVersion()
	}
	if cluster != "" && obj.GetLabels()[contract.ClusterNameLabel] != cluster {
		metadata["labels"] = map[string]any{contract.ClusterNameLabel: cluster}
		changed = true
	}
	if !changed {
		return nil
	}
	return metadata
}

// createdForMachine recognises the MachineSet that made an object before its Machine existed.
func createdForMachine(ref, machine metav1.OwnerReference) bool {
	return ref.Kind == "MachineSet" && group(ref.APIVersion) == group(machine.APIVersion)
}

func group(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	return gv.Group
}

func sameOwners(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.OwnerReference) bool {
		return x.APIVersion == y.APIVersion && x.Kind == y.Kind && x.Name == y.Name && x.UID == y.UID &&
			isTrue(x.Controller) == isTrue(y.Controller) && isTrue(x.BlockOwnerDeletion) == isTrue(y.BlockOwnerDeletion)
	})
}

func isTrue(b *bool) bool { return b != nil && *b }
