package fake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// collector is the garbage collector.
type collector struct{ *Store }

func (g *collector) keys(e event) []objectKey {
	var out []objectKey
	if e.current != nil {
		meta := e.current.meta()
		if len(meta.GetOwnerReferences()) > 0 || meta.GetDeletionTimestamp() != nil {
			out = append(out, keyOf(e.current))
		}
	}
	if e.previous == nil {
		return out
	}
	if e.current == nil || e.previous.uid != e.current.uid { // Store.Restore may replace an object by another one of its name
		for _, rec := range g.dependents(e.previous.uid) {
			out = append(out, keyOf(rec))
		}
	}
	for _, ref := range e.previous.meta().GetOwnerReferences() {
		is := func(r metav1.OwnerReference) bool { return r.UID == ref.UID }
		if e.current != nil && slices.ContainsFunc(e.current.meta().GetOwnerReferences(), is) {
			continue
		}
		if owner := g.withUID(ref); owner != nil { // it may wait for this object, which may be in another namespace
			out = append(out, keyOf(owner))
		}
	}
	return out
}

// withUID returns the object of a reference, in any namespace; nil if there is none.
func (g *collector) withUID(ref metav1.OwnerReference) *record {
	gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	if k := g.registry.kinds[gk]; k != nil {
		for _, rec := range k.all("") {
			if rec.uid == ref.UID {
				return rec
			}
		}
	}
	return nil
}

// dependents returns the objects with an owner, sorted.
func (s *Store) dependents(owner types.UID) []*record {
	return slices.SortedFunc(maps.Keys(s.owned[owner]), compareRecords)
}

// owner returns the object of a reference, nil if it is gone or was replaced. known is false if its kind is not served, because unknown
// does not mean gone.
func (s *Store) owner(rec *record, ref metav1.OwnerReference) (owner *record, known bool) {
	key := ownerKey(rec.key.Namespace, ref)
	k := s.registry.kinds[key.GroupKind]
	if k == nil || (k.namespaced && key.Namespace == "") {
		return nil, false
	}
	if !k.namespaced {
		key.Namespace = ""
	}
	if owner = k.get(key.NamespacedName); owner != nil && owner.uid != ref.UID {
		owner = nil
	}
	return owner, true
}

func ownerKey(namespace string, ref metav1.OwnerReference) objectKey {
	gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	return objectKey{gk, types.NamespacedName{Namespace: namespace, Name: ref.Name}}
}

func (g *collector) sync(key objectKey) time.Duration {
	rec := g.lookup(key)
	if rec == nil {
		return 0
	}
	if rec.meta().GetDeletionTimestamp() != nil {
		g.finalize(rec)
		return 0
	}
	refs := rec.meta().GetOwnerReferences()
	var kept []metav1.OwnerReference
	solid, leaving := 0, 0
	for _, ref := range refs {
		owner, known := g.owner(rec, ref)
		switch {
		case known && owner == nil:
			continue
		case known && waitsForDependents(owner):
			leaving++
		default:
			solid++
		}
		kept = append(kept, ref)
	}
	switch {
	case len(refs) == 0:
	case solid == 0 && leaving > 0:
		g.discard(rec, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	case solid == 0:
		g.discard(rec, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	case len(kept) < len(refs):
		g.edit(rec, func(u *unstructured.Unstructured) { u.SetOwnerReferences(kept) })
	}
	return 0
}

func waitsForDependents(rec *record) bool {
	return rec.meta().GetDeletionTimestamp() != nil && slices.Contains(rec.meta().GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// finalize performs the collector's part of the deletion of an owner.
func (g *collector) finalize(rec *record) {
	finalizers := rec.meta().GetFinalizers()
	drop := func(name string) {
		g.edit(rec, func(u *unstructured.Unstructured) {
			u.SetFinalizers(slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == name }))
		})
	}
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		for _, dependent := range g.dependents(rec.uid) {
			kept := slices.DeleteFunc(dependent.meta().GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == rec.uid })
			g.edit(dependent, func(u *unstructured.Unstructured) { u.SetOwnerReferences(kept) })
		}
		drop(metav1.FinalizerOrphanDependents)
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		for _, dependent := range g.dependents(rec.uid) {
			if dependent.meta().GetDeletionTimestamp() == nil {
				g.sync(keyOf(dependent))
			}
		}
		if !slices.ContainsFunc(g.dependents(rec.uid), func(d *record) bool { return blocks(d, rec.uid) }) {
			drop(metav1.FinalizerDeleteDependents)
		}
	}
}

func blocks(dependent *record, owner types.UID) bool {
	return slices.ContainsFunc(dependent.meta().GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == owner && ptr.Deref(r.BlockOwnerDeletion, false)
	})
}

func (s *Store) edit(rec *record, edit func(*unstructured.Unstructured)) {
	u := &unstructured.Unstructured{Object: rec.copy()}
	edit(u)
	_, _ = s.update(change{kind: rec.kind, key: rec.key, apply: func(*record) (map[string]any, error) { return u.Object, nil }})
}

// podCollector removes the pods of deleted Nodes.
type podCollector struct{ *Store }

func (p *podCollector) keys(e event) []objectKey {
	rec := e.record()
	var out []objectKey
	switch {
	case rec.kind.GroupKind == nodeKind && e.current == nil:
		for _, pod := range p.podsOnNode(rec.key.Name) {
			out = append(out, keyOf(pod))
		}
	case nodeOf(rec) != "" && rec.meta().GetDeletionTimestamp() != nil:
		out = append(out, keyOf(rec))
	}
	return out
}

func (p *podCollector) sync(key objectKey) time.Duration {
	rec := p.lookup(key)
	if rec != nil && p.registry.kinds[nodeKind].get(types.NamespacedName{Name: nodeOf(rec)}) == nil {
		p.discard(rec, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	}
	return 0
}

// namespaces empties and removes namespaces that are being deleted.
type namespaces struct{ *Store }

func (n *namespaces) keys(e event) []objectKey {
	rec := e.record()
	switch {
	case rec.kind.GroupKind == namespaceKind:
		return []objectKey{keyOf(rec)}
	case rec.key.Namespace != "" && e.current == nil:
		return []objectKey{{namespaceKind, types.NamespacedName{Name: rec.key.Namespace}}}
	}
	return nil
}

func (n *namespaces) sync(key objectKey) time.Duration {
	rec := n.lookup(key)
	if rec == nil || as[*corev1.Namespace](rec).Status.Phase != corev1.NamespaceTerminating {
		return 0
	}
	left := 0
	byName := func(a, b *kind) int { return cmp.Compare(a.String(), b.String()) }
	for _, k := range slices.SortedFunc(maps.Values(n.registry.kinds), byName) {
		if !k.namespaced {
			continue
		}
		for _, obj := range k.all(key.Name) {
			n.discard(obj, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		}
		left += len(k.objects[key.Name])
	}
	if left > 0 {
		return 0 // the event of the last removal triggers this again
	}
	if len(rec.meta().GetFinalizers()) == 0 {
		n.remove(rec)
		return 0
	}
	if content := rec.copy(); len(as[*corev1.Namespace](rec).Spec.Finalizers) > 0 {
		unstructured.RemoveNestedField(content, "spec", "finalizers")
		_, _ = n.store(rec.kind, rec.key, content) // plain JSON
	}
	return 0
}
