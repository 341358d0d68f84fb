package deployment

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

type reconciler = engine.Reconciler[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, *Scope]

type frameOf[CS, CU any] = children.Frame[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, CS, CU]

// Reconciler brings the Machines of each deployment to its template. If you call its method ReconcileObject in a loop of your own, call
// Index once before the cache starts. Safe for concurrent use for different deployments.
type Reconciler struct {
	*reconciler

	frame    *engine.Frame[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
	sets     *frameOf[contract.MachineSetState, contract.MachineSetUpdate]
	machines *frameOf[contract.MachineState, contract.MachineUpdate]
	kinds    contract.Kinds
	memory   *engine.Memory[recollection]
	marks    []string // see scale.Marks
}

// New returns a Reconciler for the ports of a manager, see pass.PortsFromManager. It reports all errors in its inputs at once and makes no
// request. Most callers want SetupWithManager.
func New(kinds contract.Kinds, ports engine.Ports, options Options) (*Reconciler, error) {
	options.Options = engine.WithDefaults(options.Options, kinds.Deployment.GVK.Kind)
	if options.Steps == nil {
		options.Steps = Steps()
	}
	frame, err := engine.NewFrame("machine deployment reconciler", kinds.Deployment, Finalizer, ports, options.Options,
		validate(kinds), checkSteps(options.Steps))
	if err != nil {
		return nil, err
	}
	frame.Shared = options.Shared
	frame.Track("templates of "+kinds.Deployment.GVK.Kind, frame.Referring)
	r := &Reconciler{
		frame: frame, kinds: kinds, marks: scale.Marks(kinds.Machine.GVK.Group),
		memory: engine.NewMemory(func() *recollection { return &recollection{sets: children.NewMemory()} }, nil),
	}
	r.sets = children.NewFrame(frame, kinds.Set, selectorOf, "MachineSet")
	r.machines = children.NewFrame(frame, kinds.Machine, selectorOf, "Machine", append([]string{scale.MarkedAtAnnotation}, r.marks...)...)
	r.reconciler = engine.NewReconciler(engine.Kind[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, *Scope]{
		Frame: frame, Steps: options.Steps, Forget: r.memory.Forget,
		NewScope: func() *Scope { return &Scope{env: r} },
		Begin: func(ctx context.Context, s *Scope) {
			s.mem = r.memory.Of(s.State.Key, s.State.UID)
			r.sets.Begin(&s.children, &s.Scope, s.mem.sets)
			s.ReadCluster(ctx)
		},
		Flush: func(ctx context.Context, s *Scope, err error) error { return s.children.Flush(ctx, unobserved, err) },
	})
	return r, nil
}

// SetupWithManager adds a Reconciler to a manager, before the manager is started. It reads no Clusters: to use them, fill the ports of
// pass.PortsFromManager, and call New and AddToManager. The error names missing parts. The required rights are PolicyRules.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kinds contract.Kinds, options Options) (*Reconciler, error) {
	options.Options = engine.WithDefaults(options.Options, kinds.Deployment.GVK.Kind)
	return engine.Setup(ctx, mgr, &options.Recorder, options.Name, func() (*Reconciler, error) {
		return New(kinds, engine.PortsFromManager(mgr), options)
	})
}

// AddToManager registers the Reconciler as a controller, with its indexes and its watches. Call it once, before the manager is
// started. A deployment is reconciled when its sets or their Machines change.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	return r.frame.AddToManager(ctx, mgr, r, r.Index, func(b *engine.Builder) {
		r.sets.Watch(b)
		b.Watches(engine.NewObject(r.kinds.Machine), r.machineEvents())
	})
}

// Index registers the indexes of deployments, sets and Machines with the cache. AddToManager calls it. If you call ReconcileObject from
// your own loop, call it once, before the cache starts.
func (r *Reconciler) Index(ctx context.Context) error {
	machines := r.frame.IndexOther(ctx, engine.NewObject(r.kinds.Machine), r.kinds.Machine.GVK.Kind, func(obj client.Object) []string {
		if owner := r.setOf(obj); owner != nil {
			return []string{setKey(owner.UID)}
		}
		return nil
	})
	deployments := r.frame.Index(ctx, func(d *contract.MachineDeploymentState) []string {
		return engine.ReferenceKeys(contract.CommonOf(d), d.Template.Bootstrap, d.Template.Infrastructure)
	})
	return errors.Join(r.sets.Index(ctx), machines, deployments)
}

// machineEvents enqueues the deployment whose set controls a Machine.
func (r *Reconciler) machineEvents() handler.EventHandler {
	return children.Gathered(func(ctx context.Context, machine client.Object) []reconcile.Request {
		owner := r.setOf(machine)
		if owner == nil {
			return nil
		}
		set := engine.NewObject(r.kinds.Set)
		key := types.NamespacedName{Namespace: machine.GetNamespace(), Name: owner.Name}
		if r.frame.Ports.Cache.Get(ctx, key, set, client.UnsafeDisableDeepCopy) != nil {
			return nil // the event of the set follows
		}
		return r.frame.ControllerOf(set)
	})
}
