package fake

import (
	"encoding/base64"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	nodeKind       = schema.GroupKind{Kind: "Node"}
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	configMapKind  = schema.GroupKind{Kind: "ConfigMap"}
	secretKind     = schema.GroupKind{Kind: "Secret"}
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	replicaSetKind = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	budgetKind     = schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}
)

// prepareCreate sets the fields of a new object that the server controls.
func prepareCreate(k *kind, u *unstructured.Unstructured) {
	u.SetGeneration(0)
	if k.generation {
		u.SetGeneration(1)
	}
	if k.status && k.GroupKind != nodeKind { // kubelets register Nodes with their status
		delete(u.Object, "status")
	}
	switch k.GroupKind {
	case podKind:
		set(u, "Pending", "status", "phase")
		set(u, "BestEffort", "status", "qosClass")
		defaultPod(u)
	case nodeKind:
		addTaint(u, corev1.TaintNodeNotReady)
	case secretKind:
		mergeStringData(u)
		setDefault(u, "Opaque", "type")
	case namespaceKind:
		WithLabels(map[string]string{corev1.LabelMetadataName: u.GetName()})(u)
		set(u, []any{"kubernetes"}, "spec", "finalizers")
		set(u, "Active", "status", "phase")
	case deploymentKind, replicaSetKind:
		setDefault(u, int64(1), "spec", "replicas")
	}
}

func defaultPod(u *unstructured.Unstructured) {
	setDefault(u, "Always", "spec", "restartPolicy")
	setDefault(u, "ClusterFirst", "spec", "dnsPolicy")
	setDefault(u, corev1.DefaultSchedulerName, "spec", "schedulerName")
	setDefault(u, int64(corev1.DefaultTerminationGracePeriodSeconds), "spec", "terminationGracePeriodSeconds")
}

// prepareUpdate restores the fields that this kind of write may not change, and increments the generation.
func prepareUpdate(k *kind, u *unstructured.Unstructured, current *record, status bool) {
	old := current.meta()
	u.SetGeneration(old.GetGeneration())
	switch {
	case status && !k.builtin:
		onlyFrom(u, current, "status")
	case status:
		onlyFrom(u, current, "status", "metadata")
		u.SetOwnerReferences(old.GetOwnerReferences())
	default:
		prepareMain(k, u, current)
	}
	if u.GetUID() == "" {
		u.SetUID(old.GetUID())
	}
	u.SetCreationTimestamp(old.GetCreationTimestamp())
	if t := old.GetDeletionTimestamp(); t != nil {
		u.SetDeletionTimestamp(t)
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && u.GetDeletionGracePeriodSeconds() == nil {
		u.SetDeletionGracePeriodSeconds(grace)
	}
}

func prepareMain(k *kind, u *unstructured.Unstructured, current *record) {
	if k.status {
		delete(u.Object, "status")
		if was, ok := current.copy()["status"]; ok {
			u.Object["status"] = was
		}
	}
	switch k.GroupKind {
	case podKind:
		defaultPod(u)
	case secretKind:
		mergeStringData(u)
		setDefault(u, "Opaque", "type")
	case namespaceKind:
		finalizers, _, _ := unstructured.NestedSlice(current.copy(), "spec", "finalizers")
		set(u, finalizers, "spec", "finalizers")
	}
	if k.generation && changesGeneration(k, u, current) {
		u.SetGeneration(current.meta().GetGeneration() + 1)
	}
}

// changesGeneration reports whether a write increments the generation: for custom kinds any change outside metadata, for built-in kinds a
// change of the spec, and for Deployments also a change of the annotations.
func changesGeneration(k *kind, u *unstructured.Unstructured, current *record) bool {
	if k.builtin {
		return !reflect.DeepEqual(u.Object["spec"], current.content["spec"]) ||
			k.GroupKind == deploymentKind && !reflect.DeepEqual(u.GetAnnotations(), current.meta().GetAnnotations())
	}
	is, was := maps.Clone(u.Object), maps.Clone(current.content)
	delete(is, "metadata")
	delete(was, "metadata")
	return !reflect.DeepEqual(is, was)
}

// onlyFrom restores all fields except the given ones.
func onlyFrom(u *unstructured.Unstructured, current *record, fields ...string) {
	content := current.copy()
	for _, field := range fields {
		delete(content, field)
		if value, has := u.Object[field]; has {
			content[field] = value
		}
	}
	u.Object = content
}

func set(u *unstructured.Unstructured, value any, fields ...string) {
	// This fails only if a parent is not an object, which the Go type of a built-in kind excludes.
	_ = unstructured.SetNestedField(u.Object, value, fields...)
}

func setDefault(u *unstructured.Unstructured, value any, fields ...string) {
	if v, found, _ := unstructured.NestedFieldNoCopy(u.Object, fields...); !found || v == "" {
		set(u, value, fields...)
	}
}

func mergeStringData(u *unstructured.Unstructured) {
	texts, _, _ := unstructured.NestedStringMap(u.Object, "stringData")
	delete(u.Object, "stringData")
	for key, value := range texts {
		set(u, base64.StdEncoding.EncodeToString([]byte(value)), "data", key)
	}
}

// addTaint adds a NoSchedule taint, as the admission plug-in TaintNodesByCondition does with not-ready on every new Node.
func addTaint(u *unstructured.Unstructured, key string) {
	taints, _, _ := unstructured.NestedSlice(u.Object, "spec", "taints")
	for _, item := range taints {
		if t, ok := item.(map[string]any); ok && t["key"] == key && t["effect"] == "NoSchedule" {
			return
		}
	}
	set(u, append(taints, map[string]any{"key": key, "effect": "NoSchedule"}), "spec", "taints")
}

func (s *Store) createNamespace(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.registry.kinds[namespaceKind]
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetName(name)
	u.SetUID(s.newUID())
	u.SetCreationTimestamp(s.now())
	prepareCreate(k, u)
	_, _ = s.store(k, types.NamespacedName{Name: name}, u.Object) // plain JSON
}
