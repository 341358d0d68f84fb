package fake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
)

// workloads maintains Deployments and ReplicaSets.
type workloads struct{ *Store }

func (w *workloads) keys(e event) []objectKey {
	var out []objectKey
	rec := e.record()
	if rec.kind.GroupKind == deploymentKind || rec.kind.GroupKind == replicaSetKind {
		out = append(out, keyOf(rec))
	}
	if rec.kind.GroupKind == podKind || rec.kind.GroupKind == replicaSetKind {
		if ref := metav1.GetControllerOf(rec.meta()); ref != nil {
			out = append(out, ownerKey(rec.key.Namespace, *ref))
		}
	}
	return out
}

func (w *workloads) sync(key objectKey) time.Duration {
	rec := w.lookup(key)
	if rec == nil || rec.meta().GetDeletionTimestamp() != nil {
		return 0
	}
	switch key.GroupKind {
	case replicaSetKind:
		w.syncReplicaSet(rec)
	case deploymentKind:
		w.syncDeployment(rec)
	}
	return 0
}

// controlled returns the objects of a kind whose controller is uid, sorted.
func (s *Store) controlled(gk schema.GroupKind, uid types.UID) []*record {
	return slices.DeleteFunc(s.dependents(uid), func(rec *record) bool {
		ref := metav1.GetControllerOf(rec.meta())
		return rec.kind.GroupKind != gk || ref == nil || ref.UID != uid
	})
}

func (w *workloads) syncReplicaSet(rec *record) {
	set := as[*appsv1.ReplicaSet](rec)
	var pods []*record
	ready := int32(0)
	for _, p := range w.controlled(podKind, set.UID) {
		pod := as[*corev1.Pod](p)
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		pods = append(pods, p)
		if podReady(pod) {
			ready++
		}
	}
	wanted := int(ptr.Deref(set.Spec.Replicas, 1))
	slices.SortStableFunc(pods, func(a, b *record) int { return cmp.Compare(worth(a), worth(b)) })
	for i := 0; i < len(pods)-wanted; i++ {
		w.discard(pods[i], metav1.DeleteOptions{})
	}
	for i := len(pods); i < wanted; i++ {
		pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.GenerateName = set.Name + "-"
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		w.make(podKind, set.Namespace, pod)
	}
	updated := set.DeepCopy()
	updated.Status = appsv1.ReplicaSetStatus{
		Replicas: int32(len(pods)), FullyLabeledReplicas: int32(len(pods)), ReadyReplicas: ready, AvailableReplicas: ready,
		ObservedGeneration: set.Generation, Conditions: set.Status.Conditions,
	}
	w.setStatus(rec, updated)
}

// worth orders the pods of a set for scale-down: first those without a node, then those that are not ready, then the youngest.
func worth(rec *record) int {
	pod := as[*corev1.Pod](rec)
	switch {
	case pod.Spec.NodeName == "":
		return 0
	case !podReady(pod):
		return 1
	}
	return 2
}

func (w *workloads) syncDeployment(rec *record) {
	deployment := as[*appsv1.Deployment](rec)
	name := deployment.Name + "-" + templateHash(deployment)
	updated := deployment.DeepCopy()
	updated.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Conditions: deployment.Status.Conditions}
	found := false
	for _, r := range w.controlled(replicaSetKind, deployment.UID) {
		set := as[*appsv1.ReplicaSet](r)
		wanted := ptr.To[int32](0)
		if set.Name == name {
			found = true
			wanted = deployment.Spec.Replicas
			updated.Status.UpdatedReplicas = set.Status.Replicas
		}
		updated.Status.Replicas += set.Status.Replicas
		updated.Status.ReadyReplicas += set.Status.ReadyReplicas
		updated.Status.AvailableReplicas += set.Status.AvailableReplicas
		if ptr.Deref(set.Spec.Replicas, 1) != ptr.Deref(wanted, 1) {
			changed := set.DeepCopy()
			changed.Spec.Replicas = wanted
			w.rewrite(r, changed)
		}
	}
	if !found {
		w.makeReplicaSet(deployment, name)
	}
	updated.Status.UnavailableReplicas = max(0, ptr.Deref(deployment.Spec.Replicas, 1)-updated.Status.AvailableReplicas)
	w.setStatus(rec, updated)
}

func (w *workloads) makeReplicaSet(d *appsv1.Deployment, name string) {
	const key = appsv1.DefaultDeploymentUniqueLabelKey
	template, hash := d.Spec.Template.DeepCopy(), name[len(d.Name)+1:]
	template.Labels = labels.Merge(template.Labels, map[string]string{key: hash})
	w.make(replicaSetKind, d.Namespace, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: maps.Clone(template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: d.Spec.Replicas, Selector: metav1.CloneSelectorAndAddLabel(d.Spec.Selector, key, hash), Template: *template,
		},
	})
}

func templateHash(d *appsv1.Deployment) string {
	body, _ := json.Marshal(d.Spec.Template) // a typed value
	h := fnv.New32a()
	_, _ = h.Write(body)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// scaleOf returns the total number of replicas of the pods' controllers, as the disruption controller computes it.
func (s *Store) scaleOf(pods []*corev1.Pod) (int32, error) {
	scales := map[types.UID]int32{}
	for _, pod := range pods {
		ref := metav1.GetControllerOf(pod)
		if ref == nil {
			continue // unmanaged pods do not count and cause no error
		}
		uid, scale, found := s.controllerScale(pod.Namespace, ref)
		if !found {
			return 0, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		scales[uid] = scale
	}
	total := int32(0)
	for _, n := range scales {
		total += n
	}
	return total, nil
}

// controllerScale returns the number of replicas of the topmost controller.
func (s *Store) controllerScale(namespace string, ref *metav1.OwnerReference) (types.UID, int32, bool) {
	scalable := []schema.GroupKind{replicaSetKind, deploymentKind, {Group: "apps", Kind: "StatefulSet"}, {Kind: "ReplicationController"}}
	key := ownerKey(namespace, *ref)
	rec := s.lookup(key)
	if rec == nil || rec.uid != ref.UID || !slices.Contains(scalable, key.GroupKind) {
		return "", 0, false
	}
	if owner := metav1.GetControllerOf(rec.meta()); key.GroupKind == replicaSetKind && owner != nil && owner.Kind == deploymentKind.Kind {
		return s.controllerScale(namespace, owner)
	}
	replicas, found, _ := unstructured.NestedInt64(rec.content, "spec", "replicas")
	if !found {
		replicas = 1
	}
	return rec.uid, int32(replicas), true
}
