package inframachine

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Kinds are the kinds of objects that a Reconciler works on. Both are required.
type Kinds struct {
	// InfraMachine is the kind that the Reconciler provides.
	InfraMachine contract.InfraMachineKind
	// Machine is the kind of the owners; it is only read.
	Machine contract.Kind
}

// ClusterAPI returns the Kinds of a provider whose InfraMachines have a CRD of the embedder's: gvk is their kind, and v their contract
// version, v1beta1 or v1beta2. The Machines are those of cluster.x-k8s.io in the API version of the same name. The error matches
// contract.ErrUnknownVersion.
func ClusterAPI(gvk schema.GroupVersionKind, v contract.Version) (Kinds, error) {
	kinds, err := contract.ClusterAPI(v)
	return Kinds{InfraMachine: contract.Unstructured(gvk, contract.LayoutsOf(v).ProvidedMachine), Machine: kinds.Machine}, err
}

func (k Kinds) validate() error {
	err := errors.Join(engine.CheckKind("kind InfraMachine", k.InfraMachine), engine.CheckKind("kind Machine", k.Machine))
	if err != nil {
		return err
	}
	if forgotten, unchecked := contract.CheckKind(k.InfraMachine); unchecked == nil { // one that rejects an empty object
		err = contract.RequireStored(forgotten)
	}
	return err
}
