package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// Workload is the access to the Nodes of one cluster; see package workload.
type Workload = workload.Workload

// Ports are the interfaces that a Reconciler uses. Nodes or NodesOf is required, and so are Client, Cache and APIReader.
type Ports struct {
	// Client writes. Node writes go to NodeClient when it is set.
	Client client.Client
	// Cache reads Machines and referenced objects, and is asked for informers.
	Cache cache.Cache
	// APIReader reads from the API server, to confirm that an object which the cache does not have is gone.
	APIReader client.Reader
	// Nodes and NodeClient are those of one cluster for all Machines; where NodesOf is set, for those that name no cluster.
	// NodeClient defaults to Client. Events of Nodes wake Machines if it has a Source as a nodeindex.Index does.
	Nodes      workload.Nodes
	NodeClient client.Client
	// NodeReader reads Nodes from their API server itself, as Workload.APIReader does. It defaults to APIReader where NodeClient is not set.
	NodeReader client.Reader
	// Drainer drains Nodes; nil means that Nodes are not drained.
	Drainer workload.Drainer
	// Volumes reports after the drain whether volumes are still attached; nil means that the deletion does not wait for them. It is
	// usually the Drainer, whose events then include volumes.
	Volumes workload.Volumes

	// NodesOf returns the access to the Nodes of a workload cluster; nil means that all Nodes are those of Ports.Nodes. A Machine's
	// cluster has the Machine's namespace and the name in its state's ClusterName. The function is called in every pass, from several
	// goroutines, and must not block.
	//
	// An error that matches cluster.ErrNotConnected or cluster.ErrNotSynced means that the Nodes cannot be read now: a condition has the
	// error's text, which should stay the same while the state does, and the Machine waits for WorkloadEvents. Steps that need no Node
	// continue meanwhile, and in a deletion, drain and Node deletion wait, and Deleting says what for. NodeReady and NodeHealthy become
	// Unknown (ConnectionDown, InspectionFailed), those of a Machine with a Node after Options.ConnectionGrace. Any other error is retried
	// with back-off.
	//
	// Machines of different clusters never compete for one Node, so two names must not refer to the same cluster: where all Machines have
	// their Nodes in one, leave NodesOf nil. The function workload.NodesOf returns one for a cluster.Clusters.
	NodesOf func(cluster types.NamespacedName) (Workload, error)
	// WorkloadEvents returns a source that enqueues what the mapper returns for a cluster whenever the result of NodesOf for it changes.
	// cluster.Clusters.Source is one. AddToManager requires it with NodesOf.
	WorkloadEvents func(cluster.Mapper) source.Source

	// ClusterOf returns what is known about a Machine's Cluster, by the Machine's namespace and its state's ClusterName; nil means that
	// there are no Clusters: none pauses a Machine, and all count as initialized. It is called in every pass of a Machine that names a
	// cluster, from several goroutines, and must not block. For a Cluster that could not be read it returns a view whose Presence is
	// Unread and no error; an error is retried with back-off. external.Clusters reads those of Cluster API:
	//
	//	clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{})
	//	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	//
	// A manager that watches Clusters of a Go type shares that informer when external.ClusterOptions.Object names the type.
	//
	// A Machine of a paused Cluster gets its finalizer and is not reconciled otherwise, also while it is being deleted. A Cluster that was
	// not read may be paused: until it is read, a pass acts on nothing and changes no condition. A Machine in deletion does not wait for a
	// Cluster that does not exist. A Machine without a controller that names no set, pool or control plane gets its Cluster as an owner.
	ClusterOf func(ctx context.Context, cluster types.NamespacedName) (external.ClusterView, error)
	// ClusterEvents returns a source that enqueues what the mapper returns for a Cluster whenever the result of ClusterOf for it changes.
	// AddToManager requires it with ClusterOf.
	ClusterEvents func(external.ClusterMapper) source.Source

	// RolloutOf returns the MachineSet and the MachineDeployment of a Machine, for the condition UpToDate; nil means that the condition is
	// not set. It is called in every pass of a Machine that is not being deleted, from several goroutines, must not block, and must not
	// keep or change the state. An error is retried with back-off.
	RolloutOf func(context.Context, *contract.MachineState) (Rollout, error)
	// RolloutEvents returns a source that enqueues what the mapper returns for a MachineDeployment, by namespace and name, whenever the
	// result of RolloutOf for its Machines changes. AddToManager requires it with RolloutOf.
	RolloutEvents func(RolloutMapper) source.Source
}

// workload is the access to the Nodes of Machines that name no cluster.
func (p Ports) workload() Workload {
	own := Workload{Nodes: p.Nodes, Client: p.NodeClient, APIReader: p.NodeReader, Drainer: p.Drainer, Volumes: p.Volumes}
	return own.Or(p.Client, p.APIReader)
}

func (p Ports) validate() error {
	var errs []error
	if p.Client == nil {
		errs = append(errs, errors.New("Ports.Client is not set"))
	}
	if p.Cache == nil {
		errs = append(errs, errors.New("Ports.Cache is not set"))
	}
	if p.APIReader == nil {
		errs = append(errs, errors.New("Ports.APIReader is not set"))
	}
	if p.Nodes == nil && p.NodesOf == nil {
		errs = append(errs, errors.New("neither Ports.Nodes nor Ports.NodesOf is set"))
	}
	return errors.Join(errs...)
}

// validateEvents reports what AddToManager needs in addition to what New needs: without events no Machine would be reconciled again.
func (p Ports) validateEvents() error {
	var errs []error
	if p.NodesOf != nil && p.WorkloadEvents == nil {
		errs = append(errs, errors.New("Ports.WorkloadEvents is not set: nothing would wake Machines when their cluster is connected"))
	}
	if p.ClusterOf != nil && p.ClusterEvents == nil {
		errs = append(errs, errors.New("Ports.ClusterEvents is not set: nothing would wake Machines when their Cluster is paused or initialised"))
	}
	if p.RolloutOf != nil && p.RolloutEvents == nil {
		errs = append(errs, errors.New("Ports.RolloutEvents is not set: nothing would wake Machines when their MachineDeployment changes"))
	}
	return errors.Join(errs...)
}

// DefaultStatusDelay is how long an intermediate status must last to be written, unless Options say otherwise.
const DefaultStatusDelay = time.Second

// DefaultConnectionGrace is how long the readiness of a Machine stays unchanged without a connection to its workload cluster, unless
// Options say otherwise; the value is Cluster API's.
const DefaultConnectionGrace = 5 * time.Minute

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Name is the name of the controller and part of the names of its indexes; it must be unique in a process. Default: the
	// kind in lower case.
	Name string
	// Steps replace the default steps; see Steps. Nil means the default; with an empty list that is not nil, a pass does nothing.
	Steps []Step
	// Recorder records events; nil records none, but SetupWithManager takes the manager's.
	Recorder events.EventRecorder
	// Clock returns the time that is compared with the times of objects and used for StatusDelay; default the real one. Requeues always
	// use real time.
	Clock clock.PassiveClock
	// StatusDelay is how long an intermediate status must stay unchanged before it is written; a status that a step needs, and one of a
	// Machine that is ready, are written at once. A status that keeps changing, and one of a Machine whose Node has joined and is not
	// Ready yet, wait for five delays at most. Default DefaultStatusDelay; negative: write at once.
	StatusDelay time.Duration
	// ConnectionGrace is how long NodeReady and NodeHealthy of a Machine with a Node stay unchanged when its workload cluster is not
	// connected: a restart of the API server does not change the Nodes. Then they become Unknown. The same applies to BootstrapConfigReady
	// and InfrastructureReady while their objects cannot be read, for example during the first list of a kind. Default
	// DefaultConnectionGrace; negative: at once.
	ConnectionGrace time.Duration
	// Finalizer keeps a Machine until all its objects are gone. Default contract.MachineFinalizer, which has no slash, so that the API
	// server warns at the first write of every Machine: "prefer a domain-qualified finalizer name". controller-runtime logs that unless
	// the rest.Config has its own WarningHandlerWithContext; Cluster API ignores the warning, as examples/manager does.
	Finalizer string
	// Policy holds decisions that an embedder can replace. The zero value decides as Cluster API does.
	Policy Policy
	// WatchFilter, when it is not empty, limits the Reconciler to Machines whose label contract.WatchFilterLabel has this value.
	// Other Machines only take space in the cache. They still count as Machines of a control plane, and when they claim a Node. Where the
	// cache has no other Machine of a control plane, for example because of its label selector, the API server is asked, because the
	// Node of a Cluster without control plane Machines is not drained.
	WatchFilter string
	// Matching defines which Node belongs to a Machine. Default: an equal provider ID, and nothing else. Ports.Nodes must be an index for
	// the same rules.
	Matching noderef.Rules
	// Propagation defines what a Machine propagates to its Node. Default propagate.ClusterAPI(). It must not be changed later.
	Propagation *propagate.Policy
	// Metrics, when it is not nil, is updated by the Reconciler. The caller creates and registers it.
	Metrics *Metrics
	// ContractVersions are the versions of the provider contract that are recognized in the labels of CRDs, in any order. Default
	// contract.Versions(), as in Cluster API; contract.AllVersions() also includes v1alpha3 and v1alpha4.
	ContractVersions []contract.Version
	// Controller is passed to controller-runtime; values that are not set stay the manager's defaults.
	Controller controller.Options
}

func (o Options) withDefaults(kind contract.Kind) Options {
	if o.Name == "" {
		o.Name = strings.ToLower(kind.GVK.Kind)
	}
	if o.Steps == nil {
		o.Steps = Steps()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.StatusDelay == 0 {
		o.StatusDelay = DefaultStatusDelay
	}
	if o.ConnectionGrace == 0 {
		o.ConnectionGrace = DefaultConnectionGrace
	}
	if o.Policy.DrainPolicy == nil {
		o.Policy.DrainPolicy = drain.DefaultPolicy()
	}
	if o.Propagation == nil {
		o.Propagation = propagate.ClusterAPI()
	}
	if o.Finalizer == "" {
		o.Finalizer = contract.MachineFinalizer
	}
	return o
}

// Reconciler reconciles Machines of one kind. Safe for concurrent use.
type Reconciler struct {
	kind    contract.Kind
	ports   Ports
	options Options
	tracker *external.Tracker
	writer  *patch.Writer
	memory  *memory
	indexed bool // the cache has the index of Machines that claim a Node
	// neverSet are the conditions that no step sets.
	neverSet []string
	// withoutInfrastructure: the phase depends on whether the infrastructure is ready, and no step of this package sets that.
	withoutInfrastructure bool

	workloads  *workload.Tracker
	dependents *dependents
	observer   *observer // nil without Options.Metrics
}

// New returns a Reconciler. It reports all errors in its inputs at once and makes no request. Most callers want SetupWithManager, which
// fills the ports from a manager. A kind that does not store the values that the steps need is rejected, see contract.CheckKind; limits of
// the policy add to these.
func New(kind contract.Kind, ports Ports, options Options) (*Reconciler, error) {
	options = options.withDefaults(kind)
	errs := []error{
		ports.validate(), validateSteps(options.Steps), contract.CheckVersions(options.ContractVersions...),
		options.Policy.DrainPolicy.Validate(),
	}
	if kind.New == nil || kind.NewList == nil || kind.Adapter == nil || kind.GVK.Empty() {
		errs = append(errs, errors.New("the contract.Kind needs a GVK, New, NewList and an Adapter"))
	} else if _, ok := kind.New().(client.Object); !ok {
		errs = append(errs, fmt.Errorf("%s is no client.Object", kind.GVK))
	} else {
		errs = append(errs, validateKind(kind, options))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("machine reconciler for %s: %w", cmp.Or(kind.GVK.Kind, "a kind without a name"), err)
	}
	r := &Reconciler{kind: kind, ports: ports, options: options, memory: newMemory(options.Clock), dependents: newDependents(),
		neverSet: neverSet(options.Steps)}
	r.withoutInfrastructure = isOurs(options.Steps, StepPhase) && at(options.Steps, StepInfrastructure, InRunning) < 0
	r.tracker = external.NewTracker(ports.Cache, r.machinesOf, "kinds that Machines refer to", options.ContractVersions...)
	r.writer = patch.NewWriter(ports.Client, options.Clock)
	r.observer = newObserver(options)
	r.workloads = workload.NewTracker(workload.Config{
		Kind: "Machine", Own: ports.workload(), NodesOf: ports.NodesOf, Events: ports.WorkloadEvents,
		OfNode: r.machinesOfNode, Concerns: options.Propagation.Concerns, InCluster: r.inCluster,
	})
	return r, nil
}

// Reconcile implements controller-runtime's Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := r.newObject()
	err := r.ports.Cache.Get(ctx, request.NamespacedName, obj, client.UnsafeDisableDeepCopy) // a Scope does not change it
	if apierrors.IsNotFound(err) {
		r.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		r.observer.unread()
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", r.kind.GVK.Kind, request.NamespacedName, err)
	}
	return r.ReconcileObject(ctx, obj)
}

// ReconcileObject makes one pass over a Machine that the caller has read, and does not change that object. To use it in your own loop
// instead of Reconcile, call Forget when a Machine is gone, and IndexMachines once before the cache starts.
func (r *Reconciler) ReconcileObject(ctx context.Context, obj contract.Object) (reconcile.Result, error) {
	r.observer.begin(ctx, r)
	defer r.observer.end()
	s := &Scope{Object: obj, Now: r.options.Clock.Now(), generation: r.generationOf(obj), env: r, observer: r.observer}
	if err := r.kind.Adapter.Read(obj, &s.State); err != nil {
		r.observer.unread()
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if !r.matchesWatchFilter(obj) {
		r.memory.unwatchNode(s.State.Key) // the other controller may continue its drain with the same Drainer
		r.Forget(s.State.Key)
		return reconcile.Result{}, nil
	}
	if r.released(&s.State) {
		r.Forget(s.State.Key)
		return reconcile.Result{}, nil // our finalizer is gone or was never set; others may remain
	}
	if r.writer.Behind(obj) {
		return reconcile.Result{RequeueAfter: behindRetry}, nil
	}
	lost, wait := r.memory.notKeptOf(s.State.Key, s.State.UID)
	if wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	s.lost = lost
	s.stored, s.before = s.State.Conditions, phaseAt{s.State.Phase, s.State.LastUpdated}
	s.storedID = s.State.ProviderID
	s.cluster = r.clusterOf(&s.State)
	s.Workload, s.NodesErr = r.workloads.Of(s.cluster)
	s.Cluster, s.ClusterErr = r.clusterView(ctx, &s.State)
	result, err := run(ctx, r.options.Steps, s)
	s.failed = err != nil
	s.forgetDeletion()
	again, flushErr := s.flush(ctx)
	result.RequeueAfter = soonest(result.RequeueAfter, again)
	err = errors.Join(err, flushErr)
	r.observer.passed(s, result.RequeueAfter, err)
	if err == nil {
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
	}
	if gone(err, s) {
		return reconcile.Result{}, nil
	}
	if patch.Retryable(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{}, err
}

// Forget removes what this process remembers about a Machine that is gone, or that the watch filter excludes now, and ends its drain.
// Reconcile calls it; in your own loop, call it for each Machine that you no longer pass to ReconcileObject, or memory grows with each.
// Metrics no longer count the Machine.
func (r *Reconciler) Forget(key types.NamespacedName) {
	r.memory.forget(key)
	r.dependents.forget(key)
	r.observer.forget(key)
}

const (
	// behindRetry is a safety net: usually the event of this process's own write wakes the Machine first.
	behindRetry = 5 * time.Second
	// conflictRetry is a safety net too: usually the event of the conflicting write wakes the Machine first.
	conflictRetry = time.Second
)

// gone reports whether the only error is that a Machine in deletion no longer exists.
func gone(err error, s *Scope) bool {
	return !s.State.Deleting.IsZero() && len(s.State.Finalizers) == 0 && external.SaysGone(err)
}

// clusterOf is the cluster of a Machine's Node; the zero name is that of Ports.Nodes.
func (r *Reconciler) clusterOf(state *contract.MachineState) types.NamespacedName {
	return r.workloads.ClusterOf(state.Key.Namespace, state.ClusterName)
}

// inCluster returns the Machines of a workload cluster.
func (r *Reconciler) inCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, cluster.Namespace, clusterKey(cluster))
}

// released reports whether a Machine in deletion no longer needs this Reconciler.
func (r *Reconciler) released(state *contract.MachineState) bool {
	return !state.Deleting.IsZero() && !slices.Contains(state.Finalizers, r.options.Finalizer)
}

// matchesWatchFilter reports whether this Reconciler reconciles a Machine.
func (r *Reconciler) matchesWatchFilter(obj metav1.Object) bool {
	return r.options.WatchFilter == "" || obj.GetLabels()[contract.WatchFilterLabel] == r.options.WatchFilter
}

func (r *Reconciler) newObject() client.Object {
	obj, _ := r.kind.New().(client.Object) // New has checked this
	return obj
}

// ownerReference is the controller reference from an object to its Machine. The GVK is the Kind's, because typed objects from a cache have
// none.
func (r *Reconciler) ownerReference(state *contract.MachineState) metav1.OwnerReference {
	version, kind := r.kind.GVK.ToAPIVersionAndKind()
	return metav1.OwnerReference{
		APIVersion: version, Kind: kind, Name: state.Key.Name, UID: state.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}
