package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selection selects the objects of a list or watch.
type selection struct {
	view      *view
	namespace string
	labels    labels.Selector
	fields    fields.Selector
	metadata  bool // as PartialObjectMetadata
}

// selectable are the fields that field selectors of built-in kinds may use, besides metadata.name and
// metadata.namespace.
var selectable = map[string][]string{
	"Pod":       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"},
	"Node":      {"spec.unschedulable"},
	"Namespace": {"status.phase"},
	"Secret":    {"type"},
	"Event": {
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "type", "reportingComponent",
	},
}

// selection returns what a call selects.
func (c *call) selection() (*selection, error) {
	sel := &selection{view: c.view, namespace: c.Namespace, metadata: c.metadata}
	var err error
	if sel.labels, err = labels.Parse(c.query.Get("labelSelector")); err != nil {
		return nil, apierrors.NewBadRequest("invalid label selector: " + err.Error())
	}
	if sel.fields, err = fields.ParseSelector(c.query.Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest("invalid field selector: " + err.Error())
	}
	if c.Name != "" {
		sel.fields = fields.AndSelectors(sel.fields, fields.OneTermEqualSelector("metadata.name", c.Name))
	}
	for _, r := range sel.fields.Requirements() {
		if !supportsField(c.view.kind, r.Field) {
			return nil, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return sel, nil
}

func supportsField(k *kind, field string) bool {
	if field == "metadata.name" || field == "metadata.namespace" {
		return true
	}
	if !k.builtin {
		return false
	}
	return slices.Contains(selectable[k.Kind], field)
}

func (sel *selection) matches(rec *record) bool {
	if sel.namespace != "" && rec.key.Namespace != sel.namespace {
		return false
	}
	if !sel.labels.Empty() && !sel.labels.Matches(labels.Set(rec.meta().GetLabels())) {
		return false
	}
	return sel.fields.Empty() || sel.fields.Matches(recordFields{rec})
}

// recordFields implements fields.Fields for a record.
type recordFields struct{ *record }

func (f recordFields) Has(string) bool { return true }

func (f recordFields) Get(field string) string {
	v, found, _ := unstructured.NestedFieldNoCopy(f.content, strings.Split(field, ".")...)
	if !found {
		if field == "spec.unschedulable" {
			return "false"
		}
		return ""
	}
	return fmt.Sprint(v)
}

// records returns the current matches of a selection. Pods of one node, and single objects, are found without a scan.
func (s *Store) records(sel *selection) []*record {
	if name, ok := sel.fields.RequiresExactMatch("metadata.name"); ok && (sel.namespace != "" || !sel.view.namespaced) {
		rec := sel.view.objects[sel.namespace][name]
		if rec == nil || !sel.matches(rec) {
			return nil
		}
		return []*record{rec}
	}
	var candidates []*record
	if node, ok := sel.fields.RequiresExactMatch("spec.nodeName"); ok && sel.view.GroupKind == podKind && node != "" {
		candidates = s.podsOnNode(node)
	} else {
		candidates = sel.view.all(sel.namespace)
	}
	return slices.DeleteFunc(candidates, func(rec *record) bool { return !sel.matches(rec) })
}

// list answers a list request with JSON: the whole selection, or one page of it.
func (s *Store) list(sel *selection, query url.Values) ([]byte, error) {
	p, err := newPage(query)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	records := s.records(sel)
	version, reached := s.version, true
	if p.from != nil && p.from.Version > 0 {
		version = uint64(p.from.Version)
		records, reached = sel.past(records, version)
	}
	s.mu.RUnlock()
	if !reached {
		p.from.Version = -1
		return nil, p.from.expired()
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}
	records = p.cut(sel, records, version, &meta)
	shown := sel.shown()
	header, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, shown.Kind+"List", shown.GroupVersion(), header)
	for i, rec := range records {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(sel.item(sel.view, rec))
	}
	b.WriteString("]}")
	return b.Bytes(), nil
}

func (sel *selection) shown() schema.GroupVersionKind {
	if sel.metadata {
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	}
	return sel.view.gvk
}

// item returns a list item. Items of built-in kinds have no apiVersion and kind, as on a real server.
func (sel *selection) item(v *view, rec *record) []byte {
	switch {
	case sel.metadata:
		return rec.metadataJSON()
	case v.builtin:
		return rec.shown(v)
	}
	return rec.json(v)
}

// render encodes one object for a response or a watch event.
func (sel *selection) render(rec *record) []byte {
	if sel.metadata {
		return rec.metadataJSON()
	}
	return rec.json(sel.view)
}
