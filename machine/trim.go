package machine

import (
	"cmp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// TextSharer is implemented by Go types to name the texts that many of their objects have in common, for TrimObjects.
type TextSharer interface {
	// ShareTexts replaces texts of the object with the equal texts that share returns.
	ShareTexts(share func(string) string)
}

// TrimObjects returns a transform for a whole cache (cache.Options.DefaultTransform) that reduces its memory: it removes managedFields,
// trims Nodes as [nodeindex.TrimNode] does, and stores texts that all objects of a kind have in common, such as the names of fields and
// the reasons of conditions, once and not for each object; of other Go types, those that they name as a TextSharer. What a Reconciler
// reads stays unchanged. Use a separate one for each cache; its table of texts is bounded. It changes objects in place, as transforms may,
// never fails, and is safe for concurrent use.
func TrimObjects() toolscache.TransformFunc { return trimming(nodeindex.TrimNode) }

// TrimUnread is TrimObjects with [nodeindex.LeanNode], for a cache that only Reconcilers of this module read.
func TrimUnread() toolscache.TransformFunc { return trimming(nodeindex.LeanNode) }

func trimming(node toolscache.TransformFunc) toolscache.TransformFunc {
	t := &texts{known: map[string]string{}}
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *unstructured.Unstructured:
			if metadata, ok := o.Object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
			t.shareMap(o.Object)
		case *corev1.Node:
			t.shareNode(o)
			return node(obj)
		default:
			if object, err := meta.Accessor(obj); err == nil && len(object.GetManagedFields()) > 0 {
				object.SetManagedFields(nil)
			}
			if object, ok := obj.(TextSharer); ok {
				object.ShareTexts(t.share)
			}
		}
		return obj, nil
	}
}

// texts stores equal texts once. Only texts whose number does not grow with the number of objects belong here.
type texts struct {
	mu    sync.RWMutex
	known map[string]string
}

// Bounds of the table: providers may have many and long texts.
const (
	maxTexts      = 4096
	maxTextLength = 256
)

// share returns an equal text, the same one each time.
func (t *texts) share(text string) string {
	if text == "" || len(text) > maxTextLength {
		return text
	}
	t.mu.RLock()
	known, found := t.known[text]
	full := len(t.known) >= maxTexts
	t.mu.RUnlock()
	if found || full {
		return cmp.Or(known, text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
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
	for _, m := range []map[string]string{node.Labels, node.Annotations} {
		for key, value := range m {
			m[t.share(key)] = value
		}
	}
}
