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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	customGroup = "conformance.machinist.dev"
	container   = `{"name":"c","image":"example.com/image:1"}`
	custom      = `{"apiVersion":"` + customGroup + `/v1","spec":{"size":1}}`
	foreign     = "22222222-2222-4222-8222-222222222222" // a UID that no object has
	// Fields of objects.
	held    = `{"metadata":{"finalizers":["example.com/a"]}}`
	free    = `{"metadata":{"finalizers":null}}`
	watched = `{"metadata":{"labels":{"watched":"yes"}}}`
)

// base is what an object of a kind has before a case adds its fields. Gadget and Gizmo are custom kinds that keep all fields, Gizmo
// without a status subresource; Gauge has gaugeSchema. Thing is unknown until it is defined.
func base(kind string) string {
	return map[string]string{
		"ConfigMap":           `{"apiVersion":"v1","data":{"k":"v"}}`,
		"Secret":              `{"apiVersion":"v1","data":{"k":"dg=="}}`,
		"Pod":                 `{"apiVersion":"v1","metadata":{"labels":{"app":"web"}},"spec":{"containers":[` + container + `]}}`,
		"Node":                `{"apiVersion":"v1","metadata":{"labels":{"conformance":"$ns"},"annotations":{"kwok.x-k8s.io/node":"fake"}}}`,
		"Namespace":           `{"apiVersion":"v1"}`,
		"ReplicaSet":          `{"apiVersion":"apps/v1"}`,
		"PodDisruptionBudget": `{"apiVersion":"policy/v1","spec":{"selector":{"matchLabels":{"app":"web"}}}}`,
		"Deployment": `{"apiVersion":"apps/v1","spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{
			"metadata":{"labels":{"app":"web"}},"spec":{"nodeSelector":{"conformance":"$ns"},"containers":[` + container + `]}}}}`,
		"Gadget": custom, "Gizmo": custom, "Gauge": custom,
		"Thing": `{"apiVersion":"$ns.machinist.dev/v1"}`,
	}[kind]
}

// gaugeSchema has a field of each type that matters for pruning and for server-side apply.
const gaugeSchema = `{"type":"object","properties":{"status":{"type":"object","properties":{"phase":{"type":"string"}}},
	"spec":{"type":"object","properties":{"size":{"type":"integer"},"unit":{"type":"string"},"either":{"x-kubernetes-int-or-string":true},
	"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
		"known":{"type":"object","properties":{"a":{"type":"string"}}}}},
	"names":{"type":"object","additionalProperties":{"type":"object","properties":{"name":{"type":"string"}}}},
	"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"words":{"type":"array","items":{"type":"string"}},
	"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{
		"type":"object","required":["name"],"properties":{"name":{"type":"string"},"unit":{"type":"string"}}}}}}}}`

// serve installs a custom kind unless it is there, and waits until it is served.
func (r *run) serve(ctx context.Context, gvk schema.GroupVersionKind) error {
	status := cmp.Or(map[string]string{"Gizmo": `{}`}[gvk.Kind], `{"status":{}}`)
	fields := cmp.Or(map[string]string{"Gauge": gaugeSchema}[gvk.Kind], `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.%[2]s"},
		"spec":{"group":"%[2]s","scope":"Namespaced","names":{"kind":"%[3]s","listKind":"%[3]sList","plural":"%[1]s"},"versions":[{
		"name":"v1","served":true,"storage":true,"subresources":%[4]s,"schema":{"openAPIV3Schema":%[5]s}}]}}`,
		strings.ToLower(gvk.Kind)+"s", gvk.Group, gvk.Kind, status, fields)
	crd, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	if err := json.Unmarshal([]byte(text), crd); err != nil {
		return err
	}
	if err := client.IgnoreAlreadyExists(r.Client.Create(ctx, crd)); err != nil {
		return fmt.Errorf("creating the definition of %s: %w", gvk.Kind, err)
	}
	r.now["CustomResourceDefinition/"+gvk.Kind] = []byte(text)
	list.SetGroupVersionKind(gvk)
	return eventually(func(ctx context.Context, r *run) error {
		return r.Client.List(ctx, list, client.InNamespace(r.Namespace))
	})(ctx, r)
}

// define installs a custom kind that no other case uses.
func define(kind string) step {
	return func(ctx context.Context, r *run) error {
		r.begin("define", kind)
		return r.serve(ctx, r.kind())
	}
}

// begin notes the request of a step. Its object is written "Kind/name", or "Kind/name:view" for another Go type.
func (r *run) begin(verb, ref string) {
	r.doing = verb + " " + ref
	r.ref, r.view, _ = strings.Cut(ref, ":")
}

func (r *run) kind() schema.GroupVersionKind {
	kind, _, _ := strings.Cut(r.ref, "/")
	version, _ := valueAt([]byte(r.expand(base(kind))), "{.apiVersion}") // the path is valid
	return schema.FromAPIVersionAndKind(version, kind)
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
	return json.Unmarshal([]byte(cmp.Or(r.expand(options), "{}")), into)
}

// object returns the object of the request: as it was last seen, or else a new one, with fields on top.
func (r *run) object(ctx context.Context, fields string) (client.Object, error) {
	content, gvk := r.now[r.ref], r.kind()
	if content == nil && gvk.Group == customGroup {
		if err := r.serve(ctx, gvk); err != nil {
			return nil, err
		}
	}
	var err error
	if content == nil || r.view != "" {
		content, err = r.merged(r.identity(), base(gvk.Kind))
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

// listing begins a list or a watch: it returns what receives the answer, and the options.
func (r *run) listing(verb, ref, options string) (client.ObjectList, *client.ListOptions, error) {
	r.begin(verb, ref)
	o := &client.ListOptions{Raw: &metav1.ListOptions{}}
	if err := r.decode(options, o.Raw); err != nil {
		return nil, nil, err
	}
	o.Limit, o.Continue = o.Raw.Limit, o.Raw.Continue
	if r.view != "all" {
		o.Namespace = r.Namespace
	}
	gvk := r.kind().GroupVersion().WithKind(r.ref + "List")
	if r.view == "metadata" {
		answer := &metav1.PartialObjectMetadataList{}
		answer.SetGroupVersionKind(gvk)
		return answer, o, nil
	}
	made, err := r.Client.Scheme().New(gvk)
	answer, _ := made.(client.ObjectList)
	return answer, o, err
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

// expand replaces $ns by the namespace, $uid and other fields of metadata by what the object of the request had first, $continue by what
// its list returned last, and ${Kind/name} by the UID of that object.
func (r *run) expand(text string) string {
	return os.Expand(text, func(name string) string {
		content, field := r.first[r.ref], name
		switch {
		case name == "ns":
			return r.Namespace
		case name == "continue":
			content = r.now[r.ref]
		case strings.Contains(name, "/"):
			content, field = r.first[name], "uid"
		}
		value, _ := valueAt(content, "{.metadata."+field+"}") // nothing where there is no object
		return value
	})
}
