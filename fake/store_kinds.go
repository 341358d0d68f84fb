package fake

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/machinist-dev/machinist/contract"
)

// ServedKind is a custom kind that a Store serves.
type ServedKind struct {
	// GVK is the kind in one served version. ServedKinds with the same group and kind are versions of one kind: objects
	// are stored once, and the versions differ only in apiVersion.
	GVK schema.GroupVersionKind
	// Resource is the lower-case plural; derived from the kind if empty.
	Resource string
	// Status is true for a kind with the status subresource: writes to the object do not change its status, and writes to the status change
	// nothing else.
	Status bool

	clusterScoped bool // from the scope of its CustomResourceDefinition
}

// kind is the state of the store for one kind: its rules, its objects and its history.
type kind struct {
	schema.GroupKind
	resource                     string
	namespaced, status           bool
	builtin, generation, updates bool // updates: a PUT without resourceVersion is allowed
	new                          func() runtime.Object
	first                        *view // of the version that was served first

	managers map[endpoint]*managedfields.FieldManager // created when they are first needed

	objects  map[string]map[string]*record // by namespace and name
	events   []event                       // the most recent ones, oldest first
	dropped  uint64                        // the version of the newest event that was dropped
	watchers map[*watcher]struct{}
}

func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

// view is a kind in one API version.
type view struct {
	*kind
	gvk     schema.GroupVersionKind
	in, out func(map[string]any) // between this version and the stored form; nil means no difference
	schema  *structural.Structural
}

// registry is guarded by the store's mutex.
type registry struct {
	kinds map[schema.GroupKind]*kind
	views map[schema.GroupVersionResource]*view
	err   error // of Options.Kinds
}

// builtins are the served kinds of Kubernetes, as "group/version:resource:Kind:flags". Flags: c cluster-scoped, s has the status
// subresource, g the server increments the generation, v PUT needs a resourceVersion.
var builtins = strings.Fields(`
	/v1:configmaps:ConfigMap: /v1:endpoints:Endpoints: /v1:events:Event: /v1:limitranges:LimitRange:
	/v1:namespaces:Namespace:cs /v1:nodes:Node:cs /v1:persistentvolumeclaims:PersistentVolumeClaim:s
	/v1:persistentvolumes:PersistentVolume:cs /v1:pods:Pod:sg /v1:replicationcontrollers:ReplicationController:sg
	/v1:resourcequotas:ResourceQuota:s /v1:secrets:Secret: /v1:serviceaccounts:ServiceAccount: /v1:services:Service:s
	apps/v1:controllerrevisions:ControllerRevision: apps/v1:daemonsets:DaemonSet:sg apps/v1:deployments:Deployment:sg
	apps/v1:replicasets:ReplicaSet:sg apps/v1:statefulsets:StatefulSet:sg
	autoscaling/v2:horizontalpodautoscalers:HorizontalPodAutoscaler:s
	batch/v1:cronjobs:CronJob:sg batch/v1:jobs:Job:sg
	certificates.k8s.io/v1:certificatesigningrequests:CertificateSigningRequest:cs
	coordination.k8s.io/v1:leases:Lease:v discovery.k8s.io/v1:endpointslices:EndpointSlice:g
	networking.k8s.io/v1:ingresses:Ingress:sg networking.k8s.io/v1:networkpolicies:NetworkPolicy:g
	policy/v1:poddisruptionbudgets:PodDisruptionBudget:sgv
	rbac.authorization.k8s.io/v1:clusterroles:ClusterRole:c rbac.authorization.k8s.io/v1:clusterrolebindings:ClusterRoleBinding:c
	rbac.authorization.k8s.io/v1:roles:Role: rbac.authorization.k8s.io/v1:rolebindings:RoleBinding:
	scheduling.k8s.io/v1:priorityclasses:PriorityClass:c storage.k8s.io/v1:csidrivers:CSIDriver:cv
	storage.k8s.io/v1:csinodes:CSINode:cv storage.k8s.io/v1:storageclasses:StorageClass:c
	storage.k8s.io/v1:volumeattachments:VolumeAttachment:csv
	apiextensions.k8s.io/v1:customresourcedefinitions:CustomResourceDefinition:csgv`)

func newRegistry() registry {
	r := registry{kinds: map[schema.GroupKind]*kind{}, views: map[schema.GroupVersionResource]*view{}}
	for _, line := range builtins {
		f := strings.Split(line, ":")
		gv, flags := schema.GroupVersion{}, f[3]
		gv.Group, gv.Version, _ = strings.Cut(f[0], "/")
		gvk := gv.WithKind(f[2])
		k := newKind(gvk.GroupKind(), f[1])
		k.builtin = true
		k.namespaced = !strings.Contains(flags, "c")
		k.status = strings.Contains(flags, "s")
		k.generation = strings.Contains(flags, "g")
		k.updates = !strings.Contains(flags, "v")
		if clientgoscheme.Scheme.Recognizes(gvk) {
			k.new = func() runtime.Object {
				obj, _ := clientgoscheme.Scheme.New(gvk) // cannot fail: Recognizes is true
				return obj
			}
		}
		r.add(k, gv.Version)
	}
	events := r.kinds[schema.GroupKind{Kind: "Event"}]
	gv := schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}
	r.views[gv.WithResource("events")] = &view{kind: events, gvk: gv.WithKind("Event"), in: eventToCore, out: eventFromCore}
	return r
}

func newKind(gk schema.GroupKind, resource string) *kind {
	return &kind{GroupKind: gk, resource: resource, objects: map[string]map[string]*record{}, watchers: map[*watcher]struct{}{}}
}

func (r *registry) add(k *kind, version string) {
	r.kinds[k.GroupKind] = k
	gvk := k.WithVersion(version)
	v := &view{kind: k, gvk: gvk}
	k.managers = nil // they depend on versions and schemas
	r.views[gvk.GroupVersion().WithResource(k.resource)] = v
	if k.first == nil || k.first.gvk == gvk {
		k.first = v
	}
}

// Register serves custom kinds, as if their CustomResourceDefinitions were installed. It fails for a kind without group, version or name,
// and for one that contradicts a served kind (scope, resource name, status subresource).
func (s *Store) Register(kinds ...ServedKind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, k := range kinds {
		errs = append(errs, s.registry.register(k))
	}
	return errors.Join(errs...)
}

func (r *registry) register(served ServedKind) error {
	gvk := served.GVK
	if gvk.Group == "" || gvk.Version == "" || gvk.Kind == "" {
		return fmt.Errorf("kind %q cannot be served: it needs a group, a version and a kind", gvk.String())
	}
	if served.Resource == "" {
		served.Resource = contract.ResourceOf(gvk.GroupKind()).Resource
	}
	k := r.kinds[gvk.GroupKind()]
	if k == nil {
		k = newKind(gvk.GroupKind(), served.Resource)
		k.namespaced, k.status, k.generation = !served.clusterScoped, served.Status, true
		for gvr := range r.views {
			if gvr.GroupResource() == k.groupResource() {
				return fmt.Errorf("kind %s cannot be served: resource %s belongs to another kind", gvk, k.groupResource())
			}
		}
	}
	if k.builtin || k.namespaced == served.clusterScoped || k.status != served.Status || k.resource != served.Resource {
		return fmt.Errorf("kind %s cannot be served: it is served already, with another resource, scope or status subresource", gvk)
	}
	r.add(k, gvk.Version)
	return nil
}

// unregister stops serving a custom kind and removes its objects despite finalizers, as the deletion of its CustomResourceDefinition
// finally does. It ignores built-in and unknown kinds.
func (s *Store) unregister(gk schema.GroupKind) {
	k := s.registry.kinds[gk]
	if k == nil || k.builtin {
		return
	}
	for _, rec := range k.all("") {
		s.remove(rec)
	}
	for w := range k.watchers {
		w.end()
	}
	delete(s.registry.kinds, gk)
	maps.DeleteFunc(s.registry.views, func(_ schema.GroupVersionResource, v *view) bool { return v.kind == k })
}

// isCRD reports whether objects of the kind are CustomResourceDefinitions.
func (k *kind) isCRD() bool {
	return k.Group == "apiextensions.k8s.io" && k.Kind == "CustomResourceDefinition"
}
