package fake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const timeFormat = time.RFC3339

// record is one stored version of an object. It never changes; a write creates a new one. The content has no apiVersion and kind, because
// they differ by view.
type record struct {
	kind    *kind
	key     types.NamespacedName
	uid     types.UID
	version uint64
	content map[string]any
	body    []byte // content as JSON

	once  sync.Once
	typed runtime.Object
}

// meta returns the metadata; it must not be changed.
func (r *record) meta() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: r.content}
}

// copy returns a copy of the content that may be changed.
func (r *record) copy() map[string]any { return runtime.DeepCopyJSON(r.content) }

// as returns the record as its Go type. It is decoded once and shared, so copy it before a change.
func as[T runtime.Object](r *record) T {
	r.once.Do(func() {
		r.typed = r.kind.new()
		// This cannot fail: the content was encoded from this type.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(r.content, r.typed)
	})
	return r.typed.(T)
}

// inFirst returns the record in the version that its kind was first served in. It shares the content.
func (r *record) inFirst() *unstructured.Unstructured {
	v := r.kind.first
	content := maps.Clone(r.content)
	if v.out != nil {
		content = r.copy()
		v.out(content)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v.gvk)
	return u
}

// in returns the content in a view, which may be changed.
func (r *record) in(v *view) map[string]any {
	content := r.copy()
	if v.out != nil {
		v.out(content)
	}
	content["apiVersion"], content["kind"] = v.gvk.GroupVersion().String(), v.gvk.Kind
	return content
}

func (r *record) json(v *view) []byte {
	return splice(`"kind":"`+v.gvk.Kind+`","apiVersion":"`+v.gvk.GroupVersion().String()+`"`, r.shown(v))
}

func (r *record) shown(v *view) []byte {
	if v.out == nil {
		return r.body
	}
	content := r.copy()
	v.out(content)
	body, _ := json.Marshal(content) // cannot fail: it was decoded from JSON
	return body
}

// metadataJSON returns the record as a PartialObjectMetadata.
func (r *record) metadataJSON() []byte {
	body, _ := json.Marshal(map[string]any{"metadata": r.content["metadata"]})
	return splice(`"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`, body)
}

// splice inserts fields at the start of a JSON object.
func splice(fields string, body []byte) []byte {
	out := make([]byte, 0, len(body)+len(fields)+1)
	out = append(append(out, '{'), fields...)
	if len(body) > 2 {
		out = append(out, ',')
	}
	return append(out, body[1:]...)
}

// all returns the objects of a namespace, or of all namespaces if it is empty, sorted by namespace and name.
func (k *kind) all(namespace string) []*record {
	var out []*record
	for ns, names := range k.objects {
		if namespace == "" || ns == namespace {
			out = slices.AppendSeq(out, maps.Values(names))
		}
	}
	slices.SortFunc(out, compareByKey)
	return out
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// compareByKey orders records of one kind.
func compareByKey(a, b *record) int { return compareKeys(a.key, b.key) }

func (k *kind) get(key types.NamespacedName) *record { return k.objects[key.Namespace][key.Name] }

// decode parses a request body as content of a kind. For a built-in kind the Go type is checked and unknown fields are dropped. Nulls are
// removed, as on a real server.
func decode(v *view, body []byte) (map[string]any, error) {
	content := map[string]any{}
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest("the object provided is not valid JSON: " + err.Error())
	}
	return expected(v, content)
}

// expected returns the content in the stored form, if it is an object of the kind of a view.
func expected(v *view, content map[string]any) (map[string]any, error) {
	apiVersion, _ := content["apiVersion"].(string)
	name, _ := content["kind"].(string)
	if (apiVersion != "" && apiVersion != v.gvk.GroupVersion().String()) || (name != "" && name != v.gvk.Kind) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is a %s of %s, not the expected %s of %s",
			name, apiVersion, v.gvk.Kind, v.gvk.GroupVersion()))
	}
	return normalize(v, content)
}

func normalize(v *view, content map[string]any) (map[string]any, error) {
	delete(content, "apiVersion")
	delete(content, "kind")
	if v.in != nil {
		v.in(content)
	}
	if v.new != nil {
		typed := v.new()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
				v.gvk.Kind, v.gvk.Version, v.gvk.Kind, err))
		}
		return contentOf(typed)
	}
	if raw, ok := content["metadata"]; ok {
		var meta metav1.ObjectMeta
		m, isMap := raw.(map[string]any)
		if !isMap {
			return nil, apierrors.NewBadRequest("metadata is not an object")
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &meta); err != nil {
			return nil, apierrors.NewBadRequest("metadata cannot be read: " + err.Error())
		}
		clean, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		content["metadata"] = clean
	}
	dropNulls(content)
	v.prune(content)
	return content, nil
}

func contentOf(typed runtime.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	dropNulls(content)
	return content, nil
}

func dropNulls(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			dropNulls(v)
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					dropNulls(m)
				}
			}
		}
	}
}

// store makes content the current version of an object. The caller holds the lock and must not use content afterwards.
func (s *Store) store(k *kind, key types.NamespacedName, content map[string]any) (*record, error) {
	s.version++
	u := &unstructured.Unstructured{Object: content}
	u.SetResourceVersion(strconv.FormatUint(s.version, 10))
	rec, err := newRecord(k, key, content, s.version)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	previous := k.get(key)
	if previous != nil {
		s.unindex(previous)
	}
	if k.objects[key.Namespace] == nil {
		k.objects[key.Namespace] = map[string]*record{}
	}
	k.objects[key.Namespace][key.Name] = rec
	s.index(rec)
	s.publish(event{version: s.version, previous: previous, current: rec})
	return rec, nil
}

func newRecord(k *kind, key types.NamespacedName, content map[string]any, version uint64) (*record, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	uid, _, _ := unstructured.NestedString(content, "metadata", "uid")
	return &record{kind: k, key: key, uid: types.UID(uid), version: version, content: content, body: body}, nil
}

func (r *record) at(version uint64) *record {
	content := r.copy()
	u := &unstructured.Unstructured{Object: content}
	u.SetResourceVersion(strconv.FormatUint(version, 10))
	out, _ := newRecord(r.kind, r.key, content, version) // cannot fail: it was decoded from JSON
	return out
}

// remove removes an object from the store. The event has its last state with the version of the removal.
func (s *Store) remove(rec *record) *record {
	s.version++
	last := rec.at(s.version)
	s.unindex(rec)
	delete(rec.kind.objects[rec.key.Namespace], rec.key.Name)
	if len(rec.kind.objects[rec.key.Namespace]) == 0 {
		delete(rec.kind.objects, rec.key.Namespace)
	}
	s.publish(event{version: s.version, previous: last, removed: rec})
	if rec.kind.isCRD() {
		d, _ := readDefinition(rec.content) // cannot fail: it was served
		s.unregister(d.groupKind())
	}
	return last
}

func (s *Store) index(rec *record) {
	for _, ref := range rec.meta().GetOwnerReferences() {
		if s.owned[ref.UID] == nil {
			s.owned[ref.UID] = map[*record]struct{}{}
		}
		s.owned[ref.UID][rec] = struct{}{}
	}
	if node := nodeOf(rec); node != "" {
		if s.podsOn[node] == nil {
			s.podsOn[node] = map[types.NamespacedName]*record{}
		}
		s.podsOn[node][rec.key] = rec
	}
}

func (s *Store) unindex(rec *record) {
	for _, ref := range rec.meta().GetOwnerReferences() {
		delete(s.owned[ref.UID], rec)
		if len(s.owned[ref.UID]) == 0 {
			delete(s.owned, ref.UID)
		}
	}
	if node := nodeOf(rec); node != "" {
		delete(s.podsOn[node], rec.key)
		if len(s.podsOn[node]) == 0 {
			delete(s.podsOn, node)
		}
	}
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()

// nodeOf returns the node of a pod; empty if there is none or the record is not a pod.
func nodeOf(rec *record) string {
	if rec.kind.GroupKind != podKind {
		return ""
	}
	node, _, _ := unstructured.NestedString(rec.content, "spec", "nodeName")
	return node
}

func (s *Store) podsOnNode(node string) []*record {
	return slices.SortedFunc(maps.Values(s.podsOn[node]), compareByKey)
}
