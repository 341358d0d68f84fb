package machineset

import (
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Finalizer retains a MachineSet until its Machines are gone. It is Cluster API's.
const Finalizer = "cluster.x-k8s.io/machineset"

// validate reports missing parts of the kinds, and required fields that they do not store.
func validate(k contract.Kinds) error {
	var maker error
	if k.Maker == nil {
		maker = errors.New("Kinds.Maker is not set")
	}
	err := errors.Join(engine.CheckKind("Kinds.Machine", k.Machine), maker)
	if err != nil || engine.CheckKind("Kinds.Set", k.Set) != nil { // New reports the set's own
		return err
	}
	set, _ := contract.CheckKind(k.Set) // a kind or a maker that rejects an empty object cannot be checked
	machine, _ := contract.CheckKind(k.Machine)
	made, _ := contract.CheckMaker(k.Set, k.Machine, k.Maker, nil)
	return errors.Join(contract.RequireStored(set), contract.RequireStored(machine, "Node.Name", "Node.UID"), // which drains need
		contract.RequireStored(made))
}

// RestoredAnnotation is children.RestoredAnnotation.
const RestoredAnnotation = children.RestoredAnnotation

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds. With StatusDelay, successive changes of Machines cost one write. The limit of a pass always uses real
	// time.
	engine.Options

	// Steps replace the default steps; see Steps. Nil means the default. New rejects a list that is not safe.
	Steps engine.Steps[*Scope]
	// Shared reports whether a reference of a template is not to a template, but to an object that all Machines reference directly, such as a
	// MachineClass: it is neither read nor cloned. It is called in every pass, from several goroutines, and must not block. Nil: every
	// reference is one to a template.
	Shared func(contract.Ref) bool
}

// Wiring describes the parts of a Reconciler that need rights. A zero member means that there is no such part.
type Wiring struct {
	// Kinds are the kinds of the Reconciler. Their GVKs, Resources and StatusSubresource are used.
	Kinds contract.Kinds
	// Templates are the kinds of bootstrap and infrastructure templates that sets may reference, as resources, and References the kinds of the
	// objects cloned from them; "*" means all resources of a group.
	Templates, References []schema.GroupResource
	// Clusters: ClusterOf of the ports is the one of external.Clusters.
	Clusters bool
	// ControlPlanes are the kinds that those Clusters reference as their control planes, for preflight checks.
	ControlPlanes []schema.GroupResource
	// Events: Options.Recorder is one of a manager, as with SetupWithManager.
	Events bool
	// OwnerReferencesEnforced: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as in OpenShift. It requires the
	// right to finalize an owner that blocks deletion, and the right to delete an object to change its owners: for sets, and for Templates,
	// which get their Cluster as an owner.
	OwnerReferencesEnforced bool
}

// PolicyRules returns the rights that a Reconciler needs:
//
//   - sets: list, watch, patch, patch on the status if that is a subresource, and get, to confirm the set before acting;
//   - Machines and References: list, watch, create, patch, and get, to check the owner of an object with a reserved name; for Machines also
//     delete by UID, and patch on the status, if that is a subresource, for conditions about their remediation;
//   - Templates: list and watch; patch, to set Clusters as owners; ControlPlanes: list and watch;
//   - CustomResourceDefinitions: list and watch their metadata, and Clusters: list, watch and get;
//   - Events: create, and patch for a repeated event.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	sets := w.Kinds.Set.GroupResource()
	rules := engine.PolicyRules(engine.Wiring{
		Own: sets, StatusSubresource: w.Kinds.Set.StatusSubresource, Read: w.ControlPlanes, Templates: w.Templates,
		Children: []schema.GroupResource{w.Kinds.Machine.GroupResource()},
		Clusters: w.Clusters, Events: w.Events, OwnerReferencesEnforced: w.OwnerReferencesEnforced,
	})
	rules = append(rules, engine.Rule(sets, "get"))
	for _, ref := range w.References {
		rules = append(rules, engine.Rule(ref, "get", "list", "watch", "create", "patch"))
	}
	return contract.MergePolicyRules(rules, engine.PatchRules(w.Kinds.Machine.GroupResource(), w.Kinds.Machine.StatusSubresource))
}
