package nodeindex

import corev1 "k8s.io/api/core/v1"

// TrimNode is a transform for a cache's Nodes (cache.ByObject.Transform). It drops metadata.managedFields and status.images,
// which nothing here reads and which are most of a Node's size, and keeps everything else. Objects of other types pass
// through. It changes the object in place, as transforms may, and never fails.
//
// A Node from such a cache must not be written back with an Update of its status: that would delete the images.
func TrimNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok && node != nil {
		node.ManagedFields = nil
		node.Status.Images = nil
	}
	return obj, nil
}
