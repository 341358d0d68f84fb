package machineset

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// freeKey is the key of Machines without a controller.
const freeKey = "free"

func ownerKey(uid types.UID) string { return "owner:" + string(uid) }

// setKey is the key of Machines that a set of this name controls, whatever its UID.
func setKey(name string) string { return "set:" + name }

// IndexMachines registers the indexes of Machines and sets with the cache. AddToManager calls it. If you call ReconcileObject from your
// own loop, call it once, before the cache starts.
func (r *Reconciler) IndexMachines(ctx context.Context) error {
	err := r.frame.IndexOther(ctx, pass.NewObject(r.kinds.Machine), r.kinds.Machine.GVK.Kind, func(obj client.Object) []string {
		owner := metav1.GetControllerOfNoCopy(obj)
		switch {
		case owner == nil:
			return []string{freeKey}
		case len(r.frame.ControllerOf(obj)) > 0:
			return []string{ownerKey(owner.UID), setKey(owner.Name)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.frame.Index(ctx, func(set *contract.MachineSetState) []string {
		cluster := types.NamespacedName{Namespace: set.Key.Namespace, Name: set.ClusterName}
		return pass.ReferenceKeys(cluster, set.Template.Bootstrap, set.Template.Infrastructure)
	})
}
