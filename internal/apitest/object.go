package apitest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	customGroup = "conformance.machinist.dev"            // its kinds are defined when a case needs them
	foreign     = "22222222-2222-4222-8222-222222222222" // a UID that no object has
)

// given is what cases share, see given.yaml.
type given struct {
	Objects, Definitions map[string]json.RawMessage
	Steps                map[string][]step
}

// run is a case that runs. Objects and lists are JSON.
type run struct {
	Env
	given

	now, first map[string][]byte // the objects, by "Kind/name", and lists, by kind, as they were last and first seen
	doing      string            // the last request
	ref        string            // its object: "Kind/name", or "Kind"
	part, view string            // the subresource and the view of the object
	answer     []byte            // what the request returned
	watches    []watch.Interface // the last one is read
	version    uint64            // of its last event
}

// begin notes a request about "Kind/name" or "Kind/name/subresource", with ":view" after it if it is seen through another Go type.
func (r *run) begin(verb, object string) {
	r.doing, r.part = verb+" "+object, ""
	r.ref, r.view, _ = strings.Cut(object, ":")
	if path := strings.SplitN(r.ref, "/", 3); len(path) == 3 {
		r.ref, r.part = path[0]+"/"+path[1], path[2]
	}
}

func (r *run) kind() schema.GroupVersionKind {
	kind, _, _ := strings.Cut(r.ref, "/")
	version, _ := valueAt([]byte(r.expand(string(r.Objects[kind]))), "{.apiVersion}") // the path is valid
	return schema.FromAPIVersionAndKind(version, kind)
}

// define installs a custom kind unless it is there, and waits until it is served.
func (r *run) define(ctx context.Context, gvk schema.GroupVersionKind) error {
	text := r.expand(string(r.Definitions[gvk.Kind]))
	crd, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	if err := json.Unmarshal([]byte(text), crd); err != nil {
		return fmt.Errorf("the definition of %s: %w", gvk.Kind, err)
	}
	if err := client.IgnoreAlreadyExists(r.Client.Create(ctx, crd)); err != nil {
		return fmt.Errorf("creating the definition of %s: %w", gvk.Kind, err)
	}
	r.now["CustomResourceDefinition/"+gvk.Kind] = []byte(text)
	list.SetGroupVersionKind(gvk)
	return eventually(ctx, func(ctx context.Context) error { return r.Client.List(ctx, list, client.InNamespace(r.Namespace)) })
}

// identity is what the object of the request has before all else.
func (r *run) identity() []byte {
	kind, name, _ := strings.Cut(r.ref, "/")
	namespace := r.Namespace
	if kind == "Node" || kind == "Namespace" {
		name, namespace = r.Namespace+"-"+name, ""
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q}}`,
		r.kind().GroupVersion(), kind, name, namespace)
}

// merged puts fields on an object, as a merge patch does.
func (r *run) merged(content []byte, fields string) ([]byte, error) {
	return jsonpatch.MergePatch(content, []byte(cmp.Or(r.expand(fields), "{}")))
}

// decode decodes options.
func (r *run) decode(options string, into any) error {
	return yaml.UnmarshalStrict([]byte(r.expand(options)), into)
}

// object returns the object of the request: as it was last seen, or else a new one, with fields on top.
func (r *run) object(ctx context.Context, fields string) (client.Object, error) {
	content, gvk := r.now[r.ref], r.kind()
	if content == nil && gvk.Group == customGroup {
		if err := r.define(ctx, gvk); err != nil {
			return nil, err
		}
	}
	var err error
	if content == nil || r.view != "" {
		content, err = r.merged(r.identity(), string(r.Objects[gvk.Kind]))
	}
	content, problem := r.merged(content, fields)
	var obj client.Object = &unstructured.Unstructured{}
	if r.view == "metadata" {
		obj = &metav1.PartialObjectMetadata{}
	} else if made, err := r.Client.Scheme().New(gvk); err == nil && r.view == "" {
		obj, _ = made.(client.Object)
	}
	return obj, errors.Join(err, problem, json.Unmarshal(content, obj))
}

// keep makes an answer the state of its object.
func (r *run) keep(ref string, obj runtime.Object) (err error) {
	if r.answer, err = json.Marshal(obj); err != nil || r.view != "" {
		return err
	}
	r.now[ref] = r.answer
	if r.first[ref] == nil {
		r.first[ref] = r.answer
	}
	return nil
}

// expand replaces $ns by the namespace, $foreign by a UID that no object has, $uid and other fields of metadata by what the object of the
// request had first, $continue by what its list returned last, and ${Kind/name} by the UID of that object.
func (r *run) expand(text string) string {
	return os.Expand(text, func(name string) string {
		content, field := r.first[r.ref], name
		switch {
		case name == "ns":
			return r.Namespace
		case name == "foreign":
			return foreign
		case name == "continue":
			content = r.now[r.ref]
		case strings.Contains(name, "/"):
			content, field = r.first[name], "uid"
		}
		value, _ := valueAt(content, "{.metadata."+field+"}") // nothing where there is no object
		return value
	})
}
