package machinepool

import (
	"cmp"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// Ports are the interfaces that a Reconciler uses: those of all kinds, and the access to Nodes. Client, Cache and APIReader are required,
// and so is Workload.Nodes or NodesOf.
type Ports struct {
	engine.Ports

	// Workload is the cluster of all pools, or, if NodesOf is set, of pools without a cluster name. Its Client defaults to Ports.Client;
	// without a Client, its APIReader defaults to Ports.APIReader.
	Workload cluster.Workload

	// NodesOf returns the access to the Nodes of a workload cluster; nil means that all Nodes are those of Ports.Workload. A pool's cluster
	// has the pool's namespace and the name in its state's ClusterName. The function is called in every pass and must not block.
	// cluster.NodesOf returns one for a cluster.Clusters. An error that matches cluster.ErrNotConnected or cluster.ErrNotSynced means that the
	// Nodes cannot be read now.
	NodesOf func(cluster types.NamespacedName) (cluster.Workload, error)
	// WorkloadEvents returns a source that enqueues the mapper's result for a cluster whenever the result of NodesOf for it changes.
	// cluster.Clusters.Source is one. AddToManager requires it with NodesOf.
	WorkloadEvents func(cluster.Mapper) source.Source
}

func (p Ports) validate() error {
	if p.Workload.Nodes == nil && p.NodesOf == nil {
		return errors.New("neither Ports.Workload.Nodes nor Ports.NodesOf is set")
	}
	return nil
}

// defaultNodeDeletionTimeout is how long a pool in deletion tries to delete its Nodes, unless its template sets a timeout. The value is
// Cluster API's; the time begins when the instances are gone, not with the deletion request.
const defaultNodeDeletionTimeout = 10 * time.Second

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds. With StatusDelay, Nodes that join one after the other cost one write.
	engine.Options

	// ConnectionGrace is how long conditions are not changed when their objects cannot be read any more, so that the restart of a server or of
	// this process does not change all pools twice. The first value of a condition does not wait. Default engine.DefaultConnectionGrace;
	// negative: at once.
	ConnectionGrace time.Duration
	// Steps are the parts of a pass, in order. Default Steps().
	Steps engine.Steps[*Scope]
	// Policy holds the decisions that an embedder can replace.
	Policy Policy
	// Matching defines which Node belongs to a pool. Workload.Nodes must be an index for the same rules. Default: an equal provider ID.
	Matching noderef.Rules
	// Propagation defines what a pool propagates to its Nodes. Default: that of propagate.ClusterAPI; the mark of a Machine is empty. It must
	// not be changed later.
	Propagation *propagate.Policy
}

func (o Options) withDefaults(kind contract.MachinePoolKind) Options {
	o.Options = engine.WithDefaults(o.Options, kind.GVK.Kind)
	o.ConnectionGrace = cmp.Or(o.ConnectionGrace, engine.DefaultConnectionGrace)
	o.Propagation = cmp.Or(o.Propagation, propagate.ClusterAPI())
	if o.Steps == nil {
		o.Steps = Steps()
	}
	if o.Policy.Leaving == nil {
		marks := scale.Marks(kind.GVK.Group)
		o.Policy.Leaving = func(node *corev1.Node) bool { return scale.Marked(node.Annotations, marks...) }
	}
	o.Policy.DrainPolicy = cmp.Or(o.Policy.DrainPolicy, drain.DefaultPolicy())
	return o
}

// Policy holds the decisions that an embedder can replace one by one. It must not be changed after New.
type Policy struct {
	// Leaving reports whether the instance of a Node is about to leave, so that the Node is drained. It must not block. Default
	// scale.Marked with the marks of scale.Marks for the API group of the pool.
	Leaving func(*corev1.Node) bool
	// DrainRules are the rules for draining Nodes; nil means those of the Drainer. DrainPolicy defines how drains escalate; nil means
	// drain.DefaultPolicy. New validates it.
	DrainRules  []drain.Rule
	DrainPolicy *drain.Policy
}

// defaultUnreadLimit is how long the drain of a pool in deletion waits for Nodes that cannot be read, because the workload cluster does not
// respond or its kubeconfig is gone; then the deletion continues without the drain.
const defaultUnreadLimit = 5 * time.Minute

// Finalizer retains a pool until everything that belongs to it is gone. It is Cluster API's.
const Finalizer = "machinepool.cluster.x-k8s.io"

// Kinds are the kinds of objects that a Reconciler works on. Pool is required.
type Kinds struct {
	Pool contract.MachinePoolKind
	// Machine is the kind of the Machines that represent single instances, if a provider creates an InfraMachine for each of them
	// (InfraMachinePool status.infrastructureMachineKind), and NewMachine returns a new one. Without NewMachine such a pool is treated like
	// any other. A Node that another Machine claims is neither cordoned nor drained nor deleted. Leave Machine empty if there are none.
	Machine contract.Kind
	// NewMachine makes the Machine of one instance. The owner in the seed is the pool, whose state must not be changed, and the infrastructure
	// is the InfraMachine of the instance. The Machine has no bootstrap configuration of its own.
	NewMachine func(pool *contract.MachinePoolState, seed contract.MachineSeed) (contract.Object, error)
}

func (k Kinds) makesMachines() bool { return k.NewMachine != nil }

func (k Kinds) hasMachines() bool { return k.makesMachines() || k.Machine.New != nil }

func (k Kinds) validate() error {
	var err error
	if engine.CheckKind("Kinds.Pool", k.Pool) == nil { // New reports missing parts
		pool, _ := contract.CheckKind(k.Pool) // a kind that rejects an empty object cannot be checked
		err = contract.RequireStored(pool)
	}
	if !k.hasMachines() {
		return err
	}
	if missing := engine.CheckKind("Kinds.Machine", k.Machine); missing != nil {
		return errors.Join(err, missing)
	}
	machine, _ := contract.CheckKind(k.Machine)
	return errors.Join(err, contract.RequireStored(machine, "Node.Name", "Node.UID")) // which drains need
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in a version, contract.V1Beta1 or contract.V1Beta2; for any other the error matches
// contract.ErrUnknownVersion.
func ClusterAPI(v contract.Version) (Kinds, error) {
	kinds, err := contract.ClusterAPI(v)
	if err != nil {
		return Kinds{}, err
	}
	gvk := kinds.Machine.GVK.GroupVersion().WithKind("MachinePool")
	return Kinds{
		Pool: contract.Unstructured(gvk, contract.LayoutsOf(v).MachinePool), Machine: kinds.Machine,
		NewMachine: func(pool *contract.MachinePoolState, seed contract.MachineSeed) (contract.Object, error) {
			return kinds.Maker.NewMachine(setFor(pool), seed)
		},
	}, nil
}

// setFor returns a set whose Machine is one of a pool. It uses the bootstrap data of the pool, so its own secret name is empty, which
// means that nothing is waited for. Rule: Cluster API's MachinePool controller.
func setFor(pool *contract.MachinePoolState) *unstructured.Unstructured {
	machine := map[string]any{"bootstrap": map[string]any{"dataSecretName": ""}}
	if pool.Template.Version != "" {
		machine["version"] = pool.Template.Version
	}
	spec := map[string]any{"template": map[string]any{"spec": machine}}
	if pool.ClusterName != "" { // no schema accepts the empty name
		spec["clusterName"] = pool.ClusterName
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
}
