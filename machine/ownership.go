package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// own returns the owner references of an object that this Machine controls from now on. A set that created the object for the Machine
// gives it up, and so does the control plane of the given kind; any other controller is a conflict, named by foreign, and nothing changes.
// References of owners that are not controllers stay, and one with the UID that the Machine had before a restore from a backup is
// replaced. Rule: InfraMachine contract, "OwnerReferences".
func own(
	have []metav1.OwnerReference, machine metav1.OwnerReference, controlPlane schema.GroupKind,
) (want []metav1.OwnerReference, changed bool, foreign *metav1.OwnerReference) {
	for i := range have {
		ref := have[i]
		switch {
		case contract.IsOwner(ref, machine):
		case createdForMachine(ref, machine, controlPlane):
			continue
		case isTrue(ref.Controller):
			return nil, false, &ref
		}
		want = append(want, ref)
	}
	want = contract.WithOwner(want, machine)
	return want, !contract.SameOwners(have, want), nil
}

// ownershipPatch returns the metadata to write so that an object has the given owners and belongs to the cluster, nil when it already
// does. Owners replace a list, so the patch only applies to the version that was read.
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

// createdForMachine reports whether a reference is to the MachineSet, or the control plane, that created an object before its Machine
// existed.
func createdForMachine(ref, machine metav1.OwnerReference, controlPlane schema.GroupKind) bool {
	if ref.Kind == "MachineSet" && group(ref.APIVersion) == group(machine.APIVersion) {
		return true
	}
	return !controlPlane.Empty() && ref.Kind == controlPlane.Kind && group(ref.APIVersion) == controlPlane.Group
}

// controlPlaneKind is the kind that may have created the objects of this Machine: that of its Cluster's control plane, if the Machine
// belongs to it.
func (s *Scope) controlPlaneKind() schema.GroupKind {
	if _, member := s.State.Labels[contract.ControlPlaneLabel]; !member {
		return schema.GroupKind{}
	}
	return s.Cluster.State.ControlPlane.GroupKind()
}

// adopted returns the owner references of a Machine without a controller, with the Cluster among them, and whether that is a change. A
// Machine that names a set, a pool or a control plane waits for its adoption: after a restore from a backup the owner references come
// later (kubernetes-sigs/cluster-api#7529).
func adopted(m *contract.Metadata, cluster metav1.OwnerReference) ([]metav1.OwnerReference, bool) {
	for _, label := range []string{contract.SetNameLabel, contract.PoolNameLabel, contract.ControlPlaneNameLabel} {
		if _, found := m.Labels[label]; found {
			return m.OwnerReferences, false
		}
	}
	for _, ref := range m.OwnerReferences {
		isCluster := ref.Kind == cluster.Kind && group(ref.APIVersion) == group(cluster.APIVersion)
		if isTrue(ref.Controller) || (isCluster && (ref.Name != cluster.Name || ref.UID == cluster.UID)) {
			return m.OwnerReferences, false
		}
	}
	// It replaces a reference to a deleted Cluster of that name, which would cause the garbage collector to delete the Machine.
	return contract.WithOwner(m.OwnerReferences, cluster), true
}

func group(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	return gv.Group
}

func isTrue(b *bool) bool { return b != nil && *b }
