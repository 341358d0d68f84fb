package machinepool

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Finalizer keeps a pool until everything that belongs to it is gone. It is Cluster API's.
const Finalizer = "machinepool.cluster.x-k8s.io"

// Kinds are the kinds of objects that a Reconciler works on. Pool is needed.
type Kinds struct {
	Pool contract.MachinePoolKind
	// Machine is the kind of the Machines that represent single instances, where a provider makes an InfraMachine for each of them
	// (InfraMachinePool status.infrastructureMachineKind), and NewMachine makes one. Without NewMachine such a pool is treated like
	// any other. A Node that another Machine claims is neither cordoned nor drained nor deleted. Leave Machine empty where there are
	// none.
	Machine    contract.Kind
	NewMachine func(Seed) (contract.Object, error)
}

func (k Kinds) makesMachines() bool { return k.NewMachine != nil }

func (k Kinds) knowsMachines() bool { return k.makesMachines() || k.Machine.New != nil }

func (k Kinds) validate() error {
	errs := []error{engine.CheckKind("kind Pool", k.Pool)}
	if k.knowsMachines() {
		errs = append(errs, engine.CheckKind("kind Machine", k.Machine))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// values that the kinds do not store and a Reconciler requires; a kind that rejects an empty object cannot be checked
	if forgotten, err := contract.CheckKind(k.Pool); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	if forgotten, err := contract.CheckKind(k.Machine); k.knowsMachines() && err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten, "Node.Name", "Node.UID")) // which drains need
	}
	return errors.Join(errs...)
}

// Seed is what a pool decides about the Machine that represents one of its instances: its owner is the pool, its infrastructure the
// InfraMachine of the instance, and it has no bootstrap configuration of its own.
type Seed struct {
	contract.MachineSeed

	ClusterName string
	// Version is the Kubernetes version of the template.
	Version string
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in a version, contract.V1Beta1 or contract.V1Beta2; for any other the error matches
// contract.ErrUnknownVersion.
func ClusterAPI(v contract.Version) (Kinds, error) {
	kinds, err := contract.ClusterAPI(v)
	if err != nil {
		return Kinds{}, err
	}
	pool := contract.MachinePoolV1Beta2()
	if v == contract.V1Beta1 {
		pool = contract.MachinePoolV1Beta1()
	}
	gvk := kinds.Machine.GVK
	return Kinds{
		Pool: contract.Unstructured(gvk.GroupVersion().WithKind("MachinePool"), pool), Machine: kinds.Machine,
		NewMachine: func(s Seed) (contract.Object, error) { return newMachine(gvk, v, s), nil },
	}, nil
}

// newMachine makes a Machine of cluster.x-k8s.io. Its bootstrap data is that of the pool, so that its own secret name is the empty one,
// which says that nothing is to be waited for. Rule: Cluster API's MachinePool controller.
func newMachine(gvk schema.GroupVersionKind, v contract.Version, s Seed) *unstructured.Unstructured {
	ref := map[string]any{"kind": s.Infrastructure.Kind, "name": s.Infrastructure.Name}
	if v == contract.V1Beta2 {
		ref["apiGroup"] = s.Infrastructure.Group
	} else {
		ref["apiVersion"] = schema.GroupVersion{Group: s.Infrastructure.Group, Version: s.InfrastructureVersion}.String()
		ref["namespace"] = s.Key.Namespace
	}
	spec := map[string]any{"infrastructureRef": ref, "bootstrap": map[string]any{"dataSecretName": ""}}
	if s.ClusterName != "" { // no schema takes the empty name
		spec["clusterName"] = s.ClusterName
	}
	if s.Version != "" {
		spec["version"] = s.Version
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(gvk)
	s.ApplyTo(u)
	return u
}
