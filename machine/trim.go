package machine

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// TextSharer is implemented by Go types to name the texts that many of their objects have in common, for TrimObjects.
type TextSharer interface {
	// ShareTexts replaces texts of the object with the equal texts that share returns.
	ShareTexts(share func(string) string)
}

// TrimObjects returns a transform for a whole cache (cache.Options.DefaultTransform) that reduces its memory: it removes managedFields,
// trims Nodes as [cluster.TrimNode] does, and stores texts that all objects of a kind have in common, such as the names of fields and
// the reasons of conditions, once and not for each object, and so those that the objects of one owner have in common, such as its UID, the
// values of labels and the record of its template; of other Go types, the metadata and what they name as a TextSharer. What a Reconciler
// reads stays unchanged. Use a separate one for each cache; its table of texts is bounded. It changes objects in place, as transforms may,
// never fails, and is safe for concurrent use.
func TrimObjects() toolscache.TransformFunc { return trimming(cluster.TrimNode) }

// TrimUnread is TrimObjects with [cluster.LeanNode], for a cache that only Reconcilers of this module read.
func TrimUnread() toolscache.TransformFunc { return trimming(cluster.LeanNode) }

func trimming(node toolscache.TransformFunc) toolscache.TransformFunc {
	t := &texts{known: map[string]string{}}
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *unstructured.Unstructured:
			if metadata, ok := o.Object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
				shareValues(t, metadata["labels"], isOfMany)
				shareValues(t, metadata["annotations"], isOfOwner)
			}
			t.shareMap(o.Object)
		case *corev1.Node:
			t.shareNode(o)
			return node(obj)
		default:
			if object, err := meta.Accessor(obj); err == nil {
				t.shareMetadata(object)
			}
			if object, ok := obj.(TextSharer); ok {
				object.ShareTexts(t.share)
			}
		}
		return obj, nil
	}
}

// shareMetadata shares the texts of the metadata of a Go type, and frees the room that a decoder has left behind its lists.
func (t *texts) shareMetadata(object metav1.Object) {
	if len(object.GetManagedFields()) > 0 {
		object.SetManagedFields(nil)
	}
	if finalizers := slices.Clone(object.GetFinalizers()); len(finalizers) > 0 {
		for i := range finalizers {
			finalizers[i] = t.share(finalizers[i])
		}
		object.SetFinalizers(finalizers)
	}
	if owners := slices.Clone(object.GetOwnerReferences()); len(owners) > 0 {
		for i := range owners {
			o := &owners[i]
			o.APIVersion, o.Kind, o.Name, o.UID = t.share(o.APIVersion), t.share(o.Kind), t.share(o.Name), types.UID(t.share(string(o.UID)))
		}
		object.SetOwnerReferences(owners)
	}
	shareTexts(t, object.GetLabels(), isOfMany)
	shareTexts(t, object.GetAnnotations(), isOfOwner)
}

// isOfMany reports whether many objects have the same value of a label. Labels group objects, but for the one with a Node's own name.
func isOfMany(label string) bool { return label != corev1.LabelHostname }

// fromSet is machineset.GivenAnnotation, the largest annotation of a Machine.
const fromSet = "machinist.dev/from-set"

// isOfOwner reports whether all objects of an owner have the same value of an annotation.
func isOfOwner(annotation string) bool {
	switch annotation {
	case fromSet, scale.SetUIDAnnotation, contract.ClonedFromNameAnnotation, contract.ClonedFromGroupKindAnnotation:
		return true
	}
	return false
}

// shareTexts shares the keys, and the values of those keys that are many objects'.
func shareTexts(t *texts, m map[string]string, many func(key string) bool) {
	for key, value := range m {
		if many(key) {
			value = t.share(value)
		}
		m[t.share(key)] = value
	}
}

// shareValues is shareTexts for unstructured content, whose keys shareMap shares.
func shareValues(t *texts, m any, many func(key string) bool) {
	content, _ := m.(map[string]any)
	for key, value := range content {
		if text, ok := value.(string); ok && many(key) {
			content[key] = t.share(text)
		}
	}
}

// texts stores equal texts once. Only texts that many objects have belong here. A full table begins anew: texts of owners that are gone
// must not keep out those of others, and what was shared stays shared.
type texts struct {
	mu    sync.RWMutex
	known map[string]string
}

// Bounds of the table: providers may have many and long texts. The record of a set's template has some hundred characters.
const (
	maxTexts      = 4096
	maxTextLength = 1024
)

// share returns an equal text, the same one each time.
func (t *texts) share(text string) string {
	if text == "" || len(text) > maxTextLength {
		return text
	}
	t.mu.RLock()
	known, found := t.known[text]
	t.mu.RUnlock()
	if found {
		return known
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, found := t.known[text]; found { // another informer was faster
		return known
	}
	if len(t.known) >= maxTexts {
		clear(t.known)
	}
	known = strings.Clone(text) // it may be a substring of a large text
	t.known[known] = known
	return known
}

// shareMap shares the names of all fields, and the values of those that have few. An assignment replaces the text of a key too.
func (t *texts) shareMap(m map[string]any) {
	for key, value := range m {
		switch v := value.(type) {
		case map[string]any:
			t.shareMap(v)
		case []any:
			t.shareList(v)
		case string:
			if hasFewValues(key) {
				value = t.share(v)
			}
		}
		m[t.share(key)] = value
	}
}

func (t *texts) shareList(list []any) {
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			t.shareMap(m)
		}
	}
}

// hasFewValues reports whether many objects have the same values in a field.
func hasFewValues(field string) bool {
	switch field {
	case "apiVersion", "kind", "apiGroup", "namespace", "clusterName", "version", "type", "status", "reason", "phase", "effect":
		return true
	}
	return false
}

// shareNode shares the texts that the Nodes of a fleet have in common.
func (t *texts) shareNode(node *corev1.Node) {
	info := &node.Status.NodeInfo
	for _, text := range []*string{
		&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion,
		&info.KubeProxyVersion, &info.OperatingSystem, &info.Architecture, //nolint:staticcheck // each value is shared
	} {
		*text = t.share(*text)
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.Type, c.Status = corev1.NodeConditionType(t.share(string(c.Type))), corev1.ConditionStatus(t.share(string(c.Status)))
		c.Reason, c.Message = t.share(c.Reason), t.share(c.Message)
	}
	node.Status.Conditions = slices.Clone(node.Status.Conditions)
	t.shareMetadata(node)
}
