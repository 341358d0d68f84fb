package cluster

import corev1 "k8s.io/api/core/v1"

// TrimNode is a transform for the Nodes of a cache (cache.ByObject.Transform). It removes metadata.managedFields and
// status.images, which this module never reads and which are most of a Node's size: a Node with 50 images needs about
// 24 KB of memory before and 6 KB after (make bench BENCH=NodeMemory). All other fields are kept for other users of the
// cache. Objects of other types are unchanged. It changes the object in place, as transforms may, and never fails.
//
// Do not write a Node from such a cache with an Update of its status: that would delete the images.
func TrimNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok && node != nil {
		node.ManagedFields = nil
		node.Status.Images = nil
	}
	return obj, nil
}

// LeanNode is TrimNode and also removes other fields that no package of this module reads: capacity and allocatable,
// the daemon's port, runtime handlers, features and configuration. They are half of what TrimNode leaves of a small
// Node. Use it only if no other component reads Nodes from the cache; a step of your own that reads a Node's capacity
// would find nothing. Do not write such a Node back either.
func LeanNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok || node == nil {
		return obj, nil
	}
	s := &node.Status
	node.Status = corev1.NodeStatus{
		Conditions: s.Conditions, Addresses: s.Addresses, NodeInfo: s.NodeInfo,
		VolumesInUse: s.VolumesInUse, VolumesAttached: s.VolumesAttached,
	}
	return TrimNode(node)
}
