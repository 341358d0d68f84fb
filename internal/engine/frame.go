package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Ports are the interfaces that the reconcilers of all kinds use. Client, Cache and APIReader are required.
type Ports struct {
	// Client writes objects.
	Client client.Client
	// Cache reads objects of the kind and the objects that they reference, and provides informers.
	Cache cache.Cache
	// APIReader reads from the API server, to confirm that an object that is missing in the cache is gone, and wherever a stale cache would
	// cause a loss.
	APIReader client.Reader

	// ClusterOf returns a view of an object's Cluster, by the object's namespace and its state's ClusterName; nil means that there are no
	// Clusters: none pauses an object, and all count as initialized. It is called in every pass of an object with a cluster name, from several
	// goroutines, and must not block. For a Cluster that could not be read it returns a view whose Presence is Unread and no error; an error
	// is retried with back-off. pass.Clusters reads those of Cluster API:
	//
	//	clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
	//	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	//
	// An object of a paused Cluster is not reconciled, even while it is being deleted. A Cluster that was not read may be paused: until it is
	// read, a pass does not act and changes no condition. An object in deletion does not wait for a Cluster that does not exist.
	ClusterOf func(ctx context.Context, cluster types.NamespacedName) (external.ClusterView, error)
	// ClusterEvents returns a source that enqueues the mapper's result for a Cluster whenever the result of ClusterOf for it changes.
	// AddToManager requires it with ClusterOf; a loop of your own enqueues objects itself.
	ClusterEvents func(external.ClusterMapper) source.Source
}

// PortsFromManager returns the ports of a manager, without Clusters.
func PortsFromManager(mgr ctrl.Manager) Ports {
	return Ports{Client: mgr.GetClient(), Cache: mgr.GetCache(), APIReader: mgr.GetAPIReader()}
}

// EventsMissing returns an error about a missing source of events, without which no object would be reconciled again.
func EventsMissing(port string, missing bool, kind, when string) error {
	if missing {
		return fmt.Errorf("Ports.%s is not set: nothing would wake %ss when their %s", port, kind, when) //nolint:staticcheck // as above
	}
	return nil
}

// DefaultStatusDelay is the default of Options.StatusDelay.
const DefaultStatusDelay = time.Second

// DefaultConnectionGrace is how long conditions are not changed while their objects cannot be read; the value is Cluster API's.
const DefaultConnectionGrace = 5 * time.Minute

// Options are the options that reconcilers of all kinds have. The Options of each kind embed them; the zero value is ready for use.
type Options struct {
	// Name is the name of the controller and part of the names of its indexes; it must be unique in a process. Default: the kind in lower
	// case.
	Name string
	// Recorder records events; nil records none, but SetupWithManager takes the manager's.
	Recorder events.EventRecorder
	// Clock returns the time that is compared with the times of objects and used for StatusDelay. Default: the real clock. Requeues always use
	// real time.
	Clock clock.PassiveClock
	// StatusDelay is the minimum time between two writes of a status. A status that a step needs, and a change of whether the object is ready,
	// are written at once. Default DefaultStatusDelay; negative: write at once.
	StatusDelay time.Duration
	// WatchFilter, when it is not empty, limits the Reconciler to objects whose label contract.WatchFilterLabel has this value.
	WatchFilter string
	// ContractVersions are the versions of the provider contract that are recognized in the labels of CRDs, in any order. Default
	// contract.Versions(), as in Cluster API; contract.AllVersions() also includes v1alpha3 and v1alpha4.
	ContractVersions []contract.Version
	// Metrics count the passes; nil counts nothing.
	Metrics *Metrics
	// Controller is passed to controller-runtime; values that are not set stay the manager's defaults.
	Controller controller.Options
}

// WithDefaults returns the options with the defaults of a kind.
func WithDefaults(o Options, kind string) Options {
	o.Name = cmp.Or(o.Name, strings.ToLower(kind))
	o.StatusDelay = cmp.Or(o.StatusDelay, DefaultStatusDelay)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Frame is a kind with its ports and options, which the passes over all its objects share. Safe for concurrent use.
type Frame[S, U any] struct {
	Kind    contract.KindOf[S, U]
	Ports   Ports
	Options Options
	Tracker *external.Tracker
	Writer  *patch.Writer
	// Finalizer retains an object until all that belongs to it is gone; empty for a kind whose objects need none.
	Finalizer string

	// Shared reports whether a reference of a template is not to a template, but to an object that all its Machines reference, such as a
	// MachineClass. ReadTemplate ignores such a reference. Nil: every reference is one to a template.
	Shared func(contract.Ref) bool

	// Normalize completes a state that was read; nil changes nothing.
	Normalize func(*S)
	// forgetsGeneration: the kind has no field for the observed generation of the status.
	forgetsGeneration bool
	// writes is the memory of this process about its writes of each object.
	writes Memory[writes]
}

// checkVersions returns an error that names a version without layouts.
func checkVersions(versions []contract.Version) error {
	for _, v := range versions {
		if all := contract.AllVersions(); !slices.Contains(all, v) {
			return fmt.Errorf("%w: %q is none of %v", contract.ErrUnknownVersion, v, all)
		}
	}
	return nil
}

// NewFrame returns the Frame of a kind. finalizer is the default of the kind's Finalizer, and empty for a kind whose objects need none. The
// error describes missing parts of the kind, the ports and the options, and includes wrong, the other errors in the inputs of the
// reconciler. NewFrame makes no request.
func NewFrame[S, U any](
	reconciler string, kind contract.KindOf[S, U], finalizer string, ports Ports, options Options, wrong ...error,
) (*Frame[S, U], error) {
	finalizers := Finalizers(kind, finalizer)
	if finalizer != "" && len(finalizers) == 0 {
		wrong = append(wrong, fmt.Errorf("the contract.Kind has NoFinalizer: leave it empty for %s", finalizer))
	}
	if ports.Client == nil || ports.Cache == nil || ports.APIReader == nil {
		wrong = append(wrong, errors.New("Ports.Client, Ports.Cache or Ports.APIReader is not set"))
	}
	wrong = append(wrong, checkVersions(options.ContractVersions), CheckKind("the contract.Kind", kind))
	if err := errors.Join(wrong...); err != nil {
		return nil, fmt.Errorf("%s for %s: %w", reconciler, cmp.Or(kind.GVK.Kind, "a kind without a name"), err)
	}
	f := &Frame[S, U]{Kind: kind, Ports: ports, Options: options, Writer: patch.NewWriter(ports.Client, options.Clock)}
	if finalizer != "" {
		f.Finalizer = finalizers[0]
	}
	forgotten, _ := contract.CheckKind(kind) // a kind that rejects the probe counts as one that stores it
	f.forgetsGeneration = slices.ContainsFunc(forgotten, func(m contract.NotStored) bool { return m.Member == "ObservedGeneration" })
	return f, nil
}

// Finalizers returns the finalizers of new objects of a kind. byDefault is the constant of the kind's reconciler.
func Finalizers[S, U any](kind contract.KindOf[S, U], byDefault string) []string {
	if kind.Finalizer == contract.NoFinalizer {
		return nil
	}
	return []string{cmp.Or(kind.Finalizer, byDefault)}
}

// Track creates the Tracker of the referenced objects. refer describes them in logs, and wake maps an event about one of them, or about the
// CRD of its kind, to objects of the Frame's kind.
func (f *Frame[S, U]) Track(refer string, wake external.Mapper) {
	f.Tracker = external.NewTracker(f.Ports.Cache, wake, refer, f.Options.ContractVersions...)
}

// CheckKind returns an error for missing parts of a kind; name describes the kind.
func CheckKind[S, U any](name string, kind contract.KindOf[S, U]) error {
	if kind.New == nil || kind.New() == nil || kind.NewList == nil || kind.Adapter == nil || kind.GVK.Empty() {
		return fmt.Errorf("%s needs a GVK, New, NewList and an Adapter", name)
	}
	if _, ok := kind.NewList().(client.ObjectList); !ok {
		return fmt.Errorf("%s: %s has no list of client.Objects", name, kind.GVK)
	}
	return nil
}

// NewObject returns an empty object of a kind that passes CheckKind.
func NewObject[S, U any](kind contract.KindOf[S, U]) client.Object {
	return kind.New()
}

// NewList returns an empty list of a kind that passes CheckKind.
func NewList[S, U any](kind contract.KindOf[S, U]) client.ObjectList {
	list, _ := kind.NewList().(client.ObjectList)
	return list
}

// Read reads the state of an object.
func (f *Frame[S, U]) Read(obj contract.Object, into *S) error {
	if err := f.Kind.Adapter.Read(obj, into); err != nil {
		return err
	}
	if f.Normalize != nil {
		f.Normalize(into)
	}
	return nil
}

// name returns the name of an object for errors.
func (f *Frame[S, U]) name(key types.NamespacedName) string {
	return f.Kind.GVK.Kind + " " + key.String()
}

// MatchesWatchFilter reports whether the reconciler reconciles an object.
func (f *Frame[S, U]) MatchesWatchFilter(obj metav1.Object) bool {
	return f.Options.WatchFilter == "" || obj.GetLabels()[contract.WatchFilterLabel] == f.Options.WatchFilter
}

// Generation returns the generation that a status records as observed. If status is not a subresource, it returns 0, because a status write
// increments the generation, and a status with its generation would have to be written again after each write.
func (f *Frame[S, U]) Generation(obj metav1.Object) int64 {
	if !f.Kind.StatusSubresource {
		return 0
	}
	return obj.GetGeneration()
}

// OwnerReference returns the reference from an owned object to an object of the kind; controls makes it a controller reference that blocks
// the deletion of the owner. The GVK is the Kind's, because typed objects from a cache have none.
func (f *Frame[S, U]) OwnerReference(m *contract.Metadata, controls bool) metav1.OwnerReference {
	version, kind := f.Kind.GVK.ToAPIVersionAndKind()
	ref := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: m.Key.Name, UID: m.UID}
	if controls {
		ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	}
	return ref
}

// ControllerOf returns the request for the object of the kind that controls another object.
func (f *Frame[S, U]) ControllerOf(obj metav1.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || owner.Kind != f.Kind.GVK.Kind || Group(owner.APIVersion) != f.Kind.GVK.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner.Name}}}
}

// Group returns the API group of an apiVersion.
func Group(apiVersion string) string {
	gv, _ := schema.ParseGroupVersion(apiVersion)
	return gv.Group
}
