package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// Faults of the providers of infrastructure and bootstrap objects, in the histories that have those.
const (
	// ProviderReportsHalf: a provider reports that something is there before it reports what.
	ProviderReportsHalf Fault = "provider reports half"
	// UserDeletesPart: a person deletes an infrastructure or a bootstrap object.
	UserDeletesPart Fault = "user deletes a part"
)

// providerDisturbances are all of them: a provider also does nothing for an object for minutes, be it to make or to delete something, or
// reports a failure that does not end; an object loses its status, which the provider writes again.
func providerDisturbances() []disturbance {
	return []disturbance{
		edit("provider is slow", (*World).anyReferred, (*World).slowed), edit(UserDeletesPart, (*World).anyReferred, (*World).removed),
		edit("provider forgets", (*World).anyReferred, func(*World, *unstructured.Unstructured) string { return patchOf(nil, "status") }),
		edit("provider fails", (*World).anyReferred, func(w *World, _ *unstructured.Unstructured) string {
			return patchOf(w.reported("", "Broken"), "status")
		}),
	}
}

// referred are the objects of the providers.
func (w *World) referred() []*unstructured.Unstructured {
	return append(w.Objects(partGVK().Kind), w.Objects(configGVK().Kind)...)
}

// anyReferred are those or, in half of the cases, those of them in deletion.
func (w *World) anyReferred() []*unstructured.Unstructured {
	return rather(w, w.referred(), func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
}

func (w *World) slowed(obj *unstructured.Unstructured) string {
	lasts := oneOf(w, 20*time.Second, 3*time.Minute, 20*time.Minute)
	w.writers.idle[obj.GetUID()] = w.Now().Add(lasts)
	w.note("provider", fmt.Sprintf("does nothing for %s %s for %s", obj.GetKind(), obj.GetName(), lasts), "")
	return ""
}

// provided is the state of the providers of a history in which Machines refer to infrastructure and bootstrap objects: the names of
// infrastructure objects that went without a finalizer after a backup was restored, each that of its Machine.
type provided struct {
	unheld map[string]bool
	// driven: package inframachine provides the infrastructure objects, and machines has the UID of the Machine of each, by the UID that is
	// the token of its instance.
	driven   bool
	machines map[string]types.UID
}

// observe takes a write; of a provided that is nil too.
func (p *provided) observe(obj *unstructured.Unstructured) {
	if owner := metav1.GetControllerOf(obj); p != nil && p.driven && obj.GetKind() == partGVK().Kind && owner != nil {
		p.machines[string(obj.GetUID())] = owner.UID
	}
}

// isFor reports whether a token is that of the infrastructure object of a Machine.
func (p *provided) isFor(token string, m *unstructured.Unstructured) bool {
	return p != nil && p.machines[token] == m.GetUID()
}

const (
	// providerFinalizer is that of the providers of infrastructure and bootstrap data.
	providerFinalizer = "example.com/provider"
	// listedAfter is when the cloud lists a new instance at the latest: until then, its provider does nothing more.
	listedAfter = 10 * time.Second
)

// provider are the controllers of infrastructure and bootstrap objects, by the contract of Cluster API. They are an actor and read the API
// server itself: what goes wrong with them is drawn. The token of an instance is the UID of its Machine.
func provider(_ context.Context, w *World) (all []due) {
	for _, obj := range w.referred() {
		if !w.provided.driven || obj.GetKind() != partGVK().Kind {
			all = append(all, w.dueFor(obj))
		}
	}
	for _, m := range w.owned() {
		if w.calm && m.GetDeletionTimestamp() == nil && w.hasFailed(m) {
			all = append(all, due{do: func() { w.deletes(m, ", which has failed") }})
		}
	}
	return slices.DeleteFunc(all, func(d due) bool { return d.do == nil })
}

// works reports whether a provider does anything for an object now.
func (w *World) works(obj *unstructured.Unstructured) bool {
	return !isPaused(obj) && !w.Now().Before(w.writers.idle[obj.GetUID()])
}

// dueFor is when a provider does the next thing for an object.
func (w *World) dueFor(obj *unstructured.Unstructured) due {
	if at := w.writers.idle[obj.GetUID()]; w.Now().Before(at) {
		return due{at: at, do: func() {}}
	}
	return due{do: w.nextOf(obj)}
}

// nextOf returns what a provider does next for an object; nil for nothing.
func (w *World) nextOf(obj *unstructured.Unstructured) func() {
	switch machine := w.controllerOf(obj, "Machine"); {
	case !w.works(obj):
		return nil
	case obj.GetDeletionTimestamp() != nil:
		return w.removes(obj)
	case machine == nil && !isPoolPart(obj) && w.controllerOf(obj, poolKind) == nil:
		return nil
	case !slices.Contains(obj.GetFinalizers(), providerFinalizer):
		return w.holds(obj, true)
	case machine == nil && isPoolPart(obj) && w.calm && !labels.SelectorFromSet(poolLabels()).Matches(labels.Set(obj.GetLabels())):
		return w.sets(obj, poolLabels(), "metadata", "labels") // without them, it would get no Machine
	case obj.GetKind() == configGVK().Kind:
		return w.bootstraps(obj)
	case obj.GetKind() == poolInfraKind:
		return w.scales(obj)
	default:
		return w.builds(obj, machine)
	}
}

// isPoolPart reports whether the provider of the pool has made an infrastructure object.
func isPoolPart(obj *unstructured.Unstructured) bool {
	return isOfPool(obj.GetName()) && !isMisplaced(obj)
}

// removes ends the instance of an object, and takes its finalizer away.
func (w *World) removes(obj *unstructured.Unstructured) func() {
	switch i := w.built(obj); {
	case !slices.Contains(obj.GetFinalizers(), providerFinalizer), i.State == cloud.Deleting:
		return nil
	case i.Token != "":
		return func() {
			w.taken[i.Token] = w.taken[i.Token] || isMisplaced(obj) // a provider has no record whose it is
			w.ends("provider", i)
		}
	}
	return w.holds(obj, false)
}

// ends is somebody, not a process, who deletes an instance.
func (w *World) ends(who string, i cloud.Instance) {
	_, err := w.cloud.Delete(w.ctx, cloud.Request{Token: i.Token, ProviderID: i.ProviderID})
	w.note(who, "delete the instance "+i.Name, textOf(err))
}

// built is the instance of an infrastructure object, or any one that a pool has: before the object has its ID, the one that was made for
// its Machine, or with its name in a pool or when nobody owns it. Without, it has no token.
func (w *World) built(obj *unstructured.Unstructured) cloud.Instance {
	owner, id := metav1.GetControllerOf(obj), providerIDIn(obj)
	return find(w.instances(), func(i cloud.Instance) bool {
		own := (isPoolPart(obj) || owner == nil) && i.Name == obj.GetName() ||
			owner != nil && i.Token == string(owner.UID) || i.Token == string(obj.GetUID())
		ofPool := obj.GetKind() == poolInfraKind && isOfPool(i.Name) && i.State != cloud.Deleting
		return ofPool || obj.GetKind() == partGVK().Kind && (i.ProviderID == id || id == "" && own)
	})
}

// bootstraps makes the data of a bootstrap object, and reports it: the name of its Secret, and that it is there.
func (w *World) bootstraps(obj *unstructured.Unstructured) func() {
	if w.object("Secret", obj.GetNamespace(), obj.GetName()) == nil {
		return func() { // the garbage collector deletes it with the object
			secret := &corev1.Secret{Data: map[string][]byte{"value": []byte(versionOf(obj))}}
			secret.Namespace, secret.Name = obj.GetNamespace(), obj.GetName()
			secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(obj, obj.GroupVersionKind())}
			w.note("provider", "create Secret "+secret.Name, textOf(w.store.Client().Create(w.ctx, secret)))
		}
	}
	return w.inTurn(obj, "dataSecretCreated", textAt(obj, "status", "dataSecretName") != "",
		w.sets(obj, obj.GetName(), "status", "dataSecretName"))
}

// builds makes the instance of an infrastructure object once its Machine has bootstrap data, and reports it: its provider ID, and that it
// is there. An instance that is gone is a failure; a pool replaces it.
func (w *World) builds(obj, machine *unstructured.Unstructured) func() {
	i, id, ofPool, failed := w.built(obj), providerIDIn(obj), isPoolPart(obj), textAt(obj, "status", "failureReason") != ""
	switch found := i.Token != ""; {
	case ofPool && (!found || w.calm && failed):
		return w.deleting(obj)
	case failed, !found && id == "" && textAt(machine, "spec", "bootstrap", "dataSecretName") == "":
		return nil
	case !found && (id != "" || w.cloud.Made(string(machine.GetUID())) > 0):
		return w.sets(obj, w.reported("", "InstanceLost"), "status")
	case !found:
		return func() {
			w.makes(obj, cloud.Request{Token: string(machine.GetUID()), Name: obj.GetName(), Cluster: w.clusterOf(obj.GetNamespace()).name})
		}
	}
	return w.inTurn(obj, "provisioned", id != "", w.sets(obj, i.ProviderID, "spec", "providerID"))
}

// inTurn names what was made and then reports it, or too early in a history with that fault; nil when both are done.
func (w *World) inTurn(obj *unstructured.Unstructured, stage string, named bool, name func()) func() {
	reported := textAt(obj, "status", "initialization", stage) == "true"
	if named && reported {
		return nil
	}
	return func() {
		if !named && (reported || !w.strikes(ProviderReportsHalf, 2)) {
			name()
		} else {
			w.sets(obj, w.reported(stage, ""), "status")()
		}
	}
}

// reported is the status in which a provider reports that an object has reached a stage, or why that has failed for good.
func (w *World) reported(stage, failure string) map[string]any {
	status := map[string]any{"conditions": []any{map[string]any{
		"type": contract.ConditionReady, "status": isTrue(failure == ""), "reason": cmp.Or(failure, "Ready"), "message": failure,
		"lastTransitionTime": w.Now().UTC().Format(time.RFC3339),
	}}}
	if failure != "" {
		status["failureReason"], status["failureMessage"] = failure, "simulated"
		return status
	}
	status["initialization"] = map[string]any{stage: true}
	status["addresses"] = []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}}
	return status
}

// makes has the cloud make an instance, which it lists late.
func (w *World) makes(obj *unstructured.Unstructured, r cloud.Request) {
	w.writers.idle[obj.GetUID()] = w.Now().Add(listedAfter)
	r.Spec = []byte(`{"size":"small"}`)
	i, err := w.cloud.Create(w.ctx, r)
	w.note("provider", "create the instance "+i.Name, textOf(err))
}

// patchTo sends a merge patch: of the status, if that begins it.
func patchTo(ctx context.Context, c client.Client, obj client.Object, body string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(body))
	if strings.HasPrefix(body, `{"status"`) {
		return c.Status().Patch(ctx, obj, patch)
	}
	return c.Patch(ctx, obj, patch)
}

// sets returns a patch of a field by its provider.
func (w *World) sets(obj *unstructured.Unstructured, value any, path ...string) func() {
	return func() { w.patchAs(w.ctx, "provider", obj, patchOf(value, path...)) }
}

// holds returns a patch of the finalizer.
func (w *World) holds(obj *unstructured.Unstructured, on bool) func() {
	return func() { w.patchAs(w.ctx, "provider", obj, withFinalizer(obj, providerFinalizer, on)) }
}

// deleting returns a deletion by a provider.
func (w *World) deleting(obj *unstructured.Unstructured) func() {
	what := "delete " + obj.GetKind() + " " + obj.GetName()
	return func() { w.note("provider", what, textOf(w.store.Client().Delete(w.ctx, obj.DeepCopy()))) }
}

// deletesBuilt is called before a process has an infrastructure object deleted, which ends its instance.
func (w *World) deletesBuilt(p *process, obj client.Object) {
	gvk, err := gvkOf(obj)
	part := w.object(gvk.Kind, obj.GetNamespace(), obj.GetName())
	if w.provided == nil || err != nil || part == nil || part.GetDeletionTimestamp() != nil {
		return
	}
	if i := w.built(part); i.Token != "" {
		w.fail(DrainsFirst, w.drainsFirst(p, &cloud.Request{Token: i.Token, ProviderID: i.ProviderID}))
	}
}

// hasFailed reports whether nothing but a deletion helps a Machine.
func (w *World) hasFailed(m *unstructured.Unstructured) bool {
	return slices.ContainsFunc(w.refsOf(m), func(obj *unstructured.Unstructured) bool {
		return obj == nil || obj.GetDeletionTimestamp() != nil || textAt(obj, "status", "failureReason") != ""
	})
}
