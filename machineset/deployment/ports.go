package deployment

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Finalizer keeps a MachineDeployment until its MachineSets are gone. It is Cluster API's.
const Finalizer = "cluster.x-k8s.io/machinedeployment"

// Kinds are the kinds of objects that a Reconciler uses. All are required.
type Kinds struct {
	Deployment contract.MachineDeploymentKind
	Set        contract.MachineSetKind
	Machine    contract.Kind
	// Maker makes sets of that kind for deployments of that kind.
	Maker contract.MachineSetMaker
	// AllRevisions: a deployment without a limit of the history keeps all old sets, as Gardener's do; otherwise it keeps one.
	AllRevisions bool
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in a version, contract.V1Beta1 or contract.V1Beta2; for any other the error
// matches contract.ErrUnknownVersion.
func ClusterAPI(v contract.Version) (Kinds, error) {
	deployment, set, machine := contract.MachineDeploymentV1Beta2(), contract.MachineSetV1Beta2(), contract.MachineV1Beta2()
	switch v {
	case contract.V1Beta2:
	case contract.V1Beta1:
		deployment, set, machine = contract.MachineDeploymentV1Beta1(), contract.MachineSetV1Beta1(), contract.MachineV1Beta1()
	default:
		return Kinds{}, fmt.Errorf("%w: MachineDeployments have %s and %s, not %q",
			contract.ErrUnknownVersion, contract.V1Beta1, contract.V1Beta2, v)
	}
	return kindsOf("cluster.x-k8s.io", string(v), deployment, set, machine), nil
}

// Kubermatic returns the kinds of cluster.k8s.io/v1alpha1. The CRD of its Machines has no status subresource.
func Kubermatic() Kinds {
	kinds := kindsOf("cluster.k8s.io", "v1alpha1",
		contract.KubermaticMachineDeployment(), contract.KubermaticMachineSet(), contract.KubermaticMachine())
	kinds.Machine.StatusSubresource = false
	return kinds
}

// Gardener returns the kinds of machine.sapcloud.io/v1alpha1.
func Gardener() Kinds {
	kinds := kindsOf("machine.sapcloud.io", "v1alpha1",
		contract.GardenerMachineDeployment(), contract.GardenerMachineSet(), contract.GardenerMachine())
	kinds.AllRevisions = true
	return kinds
}

func kindsOf(
	group, version string, deployment *contract.MachineDeploymentLayout, set *contract.MachineSetLayout, machine *contract.MachineLayout,
) Kinds {
	gvk := schema.GroupVersion{Group: group, Version: version}.WithKind
	return Kinds{
		Deployment: contract.Unstructured(gvk("MachineDeployment"), deployment), Set: contract.Unstructured(gvk("MachineSet"), set),
		Machine: contract.Unstructured(gvk("Machine"), machine), Maker: contract.UnstructuredSetMaker(deployment, gvk("MachineSet"), set),
	}
}

func (k Kinds) validate() error {
	var maker error
	if k.Maker == nil {
		maker = errors.New("Kinds.Maker is not set")
	}
	err := errors.Join(engine.CheckKind("Kinds.Set", k.Set), engine.CheckKind("Kinds.Machine", k.Machine), maker)
	if err != nil || engine.CheckKind("Kinds.Deployment", k.Deployment) != nil { // New reports the deployment's own
		return err
	}
	var errs []error // a kind or a maker that rejects an empty object cannot be checked
	if forgotten, err := contract.CheckKind(k.Deployment); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	if forgotten, err := contract.CheckSetMaker(k.Deployment, k.Set, k.Maker, nil); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	return errors.Join(errs...)
}

// Ports are the interfaces that a Reconciler uses: those of all kinds. Client, Cache and APIReader are required, and AddToManager
// requires ClusterEvents with ClusterOf.
type Ports struct{ engine.Ports }

// PortsFromManager returns the ports of a manager, without Clusters.
func PortsFromManager(mgr ctrl.Manager) Ports { return Ports{engine.PortsFromManager(mgr)} }

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds.
	engine.Options

	// Steps replace the default steps; see Steps. Nil means the default. New rejects a list that is not safe.
	Steps engine.Steps[*Scope]
	// Shared reports whether what a template refers to is no template, but an object that all Machines refer to as it stands, such as a
	// MachineClass: it is neither read nor cloned. It is called in every pass, from several goroutines, and must not block. Nil: every
	// reference is one to a template.
	Shared func(contract.Ref) bool
}

func (o Options) withDefaults(kind contract.MachineDeploymentKind) Options {
	o.Options = engine.WithDefaults(o.Options, kind.GVK.Kind)
	if o.Steps == nil {
		o.Steps = Steps()
	}
	return o
}
