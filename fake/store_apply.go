package fake

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Server-side apply with the API server's own libraries. An object has managed fields only from its first apply on, to save memory for
// other objects. Its earlier fields belong to the manager before-first-apply.

// loopsManager is the field manager of the loops.
const loopsManager = "fake-loops"

// writeApply performs an apply patch. The caller holds the lock.
func (s *Store) writeApply(c *call, o metav1.PatchOptions) (int, []byte, error) {
	ch := c.change()
	ch.applied = true
	patch, err := applied(c.body, ch.status, c.view.status)
	if err != nil {
		return 0, nil, err
	}
	manager, err := s.fieldManager(c.view, ch.status)
	if err != nil {
		return 0, nil, apierrors.NewInternalError(err)
	}
	force := o.Force != nil && *o.Force
	ch.apply = func(current *record) (map[string]any, error) {
		return s.merged(c.view, manager, current, patch, o.FieldManager, force)
	}
	if c.view.get(ch.key) != nil || ch.status {
		return c.answer(http.StatusOK)(s.update(ch))
	}
	content, err := ch.apply(nil)
	if err != nil {
		return 0, nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if uid := u.GetUID(); uid != "" {
		return 0, nil, apierrors.NewConflict(c.groupResource(), c.Name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if u.GetName() != c.Name {
		return 0, nil, nameMismatch(u.GetName(), c.Name)
	}
	return c.answer(http.StatusCreated)(s.create(ch.kind, c.Namespace, content, c.DryRun))
}

// applied parses an apply patch, and removes the fields that its endpoint ignores.
func applied(body []byte, status, hasStatus bool) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	text, err := yaml.YAMLToJSON(body)
	if err == nil {
		err = utiljson.Unmarshal(text, &u.Object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	switch {
	case status:
		kept := map[string]any{}
		for _, name := range []string{"name", "namespace", "uid", "resourceVersion"} {
			if value, found, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", name); found {
				kept[name] = value
			}
		}
		only := map[string]any{"apiVersion": u.Object["apiVersion"], "kind": u.Object["kind"], "metadata": kept}
		if value, found := u.Object["status"]; found {
			only["status"] = value
		}
		u.Object = only
	case hasStatus:
		delete(u.Object, "status")
	}
	return u, nil
}

// merged applies a patch to a record in a view, or to an empty object. It does not change the patch.
func (s *Store) merged(
	v *view, manager *managedfields.FieldManager, current *record, patch *unstructured.Unstructured, name string, force bool,
) (map[string]any, error) {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	if current != nil {
		live.Object = current.in(v)
	}
	live.SetGroupVersionKind(v.gvk)
	before := live.GetManagedFields()
	out, err := manager.Apply(live, patch.DeepCopy(), name, force)
	if err != nil {
		return nil, err
	}
	u, ok := out.(*unstructured.Unstructured)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("an apply made a %T", out))
	}
	s.stamp(u, before)
	return patchedContent(v, u.Object)
}

// track updates the managed fields of an object: to those of an apply, or, if the object was applied before, for any other write.
func (s *Store) track(c change, u *unstructured.Unstructured, current *record, made []metav1.ManagedFieldsEntry) {
	if c.applied {
		u.SetManagedFields(made)
		return
	}
	before := current.meta().GetManagedFields()
	if len(before) == 0 {
		return
	}
	v := cmp.Or(c.view, c.kind.first)
	manager, err := s.fieldManager(v, c.status)
	if err != nil {
		return // its schema was parsed at the first apply
	}
	live := &unstructured.Unstructured{Object: current.copy()}
	live.SetGroupVersionKind(v.gvk)
	u.SetGroupVersionKind(v.gvk)
	if out, ok := manager.UpdateNoErrors(live, u, cmp.Or(c.manager, loopsManager)).(*unstructured.Unstructured); ok {
		u.Object = out.Object
	}
	delete(u.Object, "apiVersion")
	delete(u.Object, "kind")
	s.stamp(u, before)
}

// stamp sets the time of new entries from the store's clock; the library uses the real one.
func (s *Store) stamp(u *unstructured.Unstructured, before []metav1.ManagedFieldsEntry) {
	entries, now := u.GetManagedFields(), s.now()
	for i := range entries {
		if t := entries[i].Time; t != nil && !slices.ContainsFunc(before, func(e metav1.ManagedFieldsEntry) bool { return t.Equal(e.Time) }) {
			entries[i].Time = &now
		}
	}
	u.SetManagedFields(entries)
}

// endpoint is an API version and subresource through which a kind is written.
type endpoint struct{ version, subresource string }

// fieldManager returns the field manager for one endpoint of a kind. The caller holds the lock.
func (s *Store) fieldManager(v *view, status bool) (*managedfields.FieldManager, error) {
	at := endpoint{version: v.gvk.Version}
	if status {
		at.subresource = "status"
	}
	if m := v.managers[at]; m != nil {
		return m, nil
	}
	converter, err := s.typeConverter(v.kind)
	if err != nil {
		return nil, err
	}
	m, err := managedfields.NewDefaultFieldManager(converter, asIs{}, clientgoscheme.Scheme, unstructuredscheme.NewUnstructuredCreator(),
		v.gvk, v.gvk.GroupVersion(), at.subresource, nil)
	if err != nil {
		return nil, err
	}
	if v.managers == nil {
		v.managers = map[endpoint]*managedfields.FieldManager{}
	}
	v.managers[at] = m
	return m, nil
}

// typeConverter returns how lists and objects of a kind merge: from client-go for built-in kinds, from the schemas of the
// CustomResourceDefinition for a custom kind. Without a schema every field is preserved, and lists are replaced as a whole.
func (s *Store) typeConverter(k *kind) (managedfields.TypeConverter, error) {
	if k.new != nil {
		return applyconfigurations.NewTypeConverter(clientgoscheme.Scheme), nil
	}
	models := keyed((*structural.Structural).ToKubeOpenAPI)
	for gvr, v := range s.registry.views {
		if v.kind != k {
			continue
		}
		model := typeSchema(v.schema).ToKubeOpenAPI()
		model.AddExtension("x-kubernetes-group-version-kind", []any{
			map[string]any{"group": v.gvk.Group, "version": v.gvk.Version, "kind": v.gvk.Kind},
		})
		models[gvr.Version] = model
	}
	return managedfields.NewTypeConverter(models, false)
}

// keyed returns a map whose value type is the result of a function, because the type belongs to a module that this
// module does not require.
func keyed[A, T any](func(A) T) map[string]T { return map[string]T{} }

// typeSchema adds the fields that all objects have to the schema of a custom kind.
func typeSchema(known *structural.Structural) *structural.Structural {
	root := &structural.Structural{Extensions: structural.Extensions{XPreserveUnknownFields: true}}
	if known != nil {
		root = known.DeepCopy()
	}
	root.Type = "object"
	if root.Properties == nil {
		root.Properties = map[string]structural.Structural{}
	}
	text := structural.Structural{Generic: structural.Generic{Type: "string"}}
	root.Properties["apiVersion"], root.Properties["kind"], root.Properties["metadata"] = text, text, metadataSchema(text)
	return root
}

// metadataSchema is the schema of the lists of ObjectMeta; its other fields merge by key.
func metadataSchema(text structural.Structural) structural.Structural {
	set, byKey, whole := "set", "map", "atomic"
	return structural.Structural{
		Generic: structural.Generic{Type: "object"}, Extensions: structural.Extensions{XPreserveUnknownFields: true},
		Properties: map[string]structural.Structural{
			"finalizers": {
				Generic: structural.Generic{Type: "array"}, Extensions: structural.Extensions{XListType: &set}, Items: &text,
			},
			"ownerReferences": {
				Generic: structural.Generic{Type: "array"}, Extensions: structural.Extensions{XListType: &byKey, XListMapKeys: []string{"uid"}},
				Items: &structural.Structural{
					Generic: structural.Generic{Type: "object"}, Extensions: structural.Extensions{XMapType: &whole, XPreserveUnknownFields: true},
					Properties: map[string]structural.Structural{"uid": text},
				},
			},
		},
	}
}

// asIs converts between the versions of a kind like the store: only apiVersion changes.
type asIs struct{}

func (asIs) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	have := in.GetObjectKind().GroupVersionKind()
	want, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{have})
	if !ok {
		return nil, fmt.Errorf("%s has no version in %s", have, target.Identifier())
	}
	if want == have {
		return in, nil
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(want)
	return out, nil
}

func (asIs) Convert(any, any, any) error { return fmt.Errorf("only whole versions are converted") }

func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
