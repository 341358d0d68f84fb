package machineset

import (
	"context"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

type reconciler = engine.Reconciler[contract.MachineSetState, contract.MachineSetUpdate, *Scope]

// Reconciler maintains the desired number of Machines of each set. If you call its method ReconcileObject in a loop of your own, call
// IndexMachines once before the cache starts. Safe for concurrent use for different sets.
type Reconciler struct {
	*reconciler

	frame    *engine.Frame[contract.MachineSetState, contract.MachineSetUpdate]
	kinds    contract.Kinds
	memory   *engine.Memory[children.Memory]
	marks    []string // see scale.Marks
	machines *children.Frame[contract.MachineSetState, contract.MachineSetUpdate, contract.MachineState, contract.MachineUpdate]
}

// New returns a Reconciler for the ports of a manager, see pass.PortsFromManager. It reports all errors in its inputs at once and makes no
// request. Most callers want SetupWithManager.
func New(kinds contract.Kinds, ports engine.Ports, options Options) (*Reconciler, error) {
	options.Options = engine.WithDefaults(options.Options, kinds.Set.GVK.Kind)
	if options.Steps == nil {
		options.Steps = Steps()
	}
	frame, err := engine.NewFrame("machine set reconciler", kinds.Set, Finalizer, ports, options.Options,
		validate(kinds), checkSteps(options.Steps))
	if err != nil {
		return nil, err
	}
	frame.Shared = options.Shared
	frame.Track("templates of "+kinds.Set.GVK.Kind, frame.Referring)
	r := &Reconciler{
		frame: frame, kinds: kinds, memory: engine.NewMemory(children.NewMemory, nil),
		marks: scale.Marks(kinds.Machine.GVK.Group),
		machines: children.NewFrame(frame, kinds.Machine, selectorOf, "Machine",
			append([]string{scale.PriorityAnnotation, scale.MarkedAtAnnotation}, scale.Marks(kinds.Machine.GVK.Group)...)...),
	}
	r.reconciler = engine.NewReconciler(engine.Kind[contract.MachineSetState, contract.MachineSetUpdate, *Scope]{
		Frame: frame, Steps: options.Steps, Forget: r.memory.Forget,
		NewScope: func() *Scope { return &Scope{env: r} },
		Begin: func(ctx context.Context, s *Scope) {
			r.machines.Begin(&s.machines, &s.Scope, r.memory.Of(s.State.Key, s.State.UID))
			s.ReadCluster(ctx)
		},
		Flush: func(ctx context.Context, s *Scope, err error) error {
			return s.machines.Flush(ctx, children.Unobserved, err)
		},
	})
	return r, nil
}
