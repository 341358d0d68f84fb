package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// providerFinalizer is that of the providers of infrastructure and bootstrap data.
const providerFinalizer = "example.com/provider"

// provided is the state of the providers of a history in which Machines refer to infrastructure and bootstrap objects.
type provided struct {
	// slow is until when nothing is done for an object.
	slow map[types.UID]time.Time
	// fresh are instances that were made, by token, until a time: the cloud lists a new one late.
	fresh map[string]cloud.Instance
	until map[string]time.Time
	// unheld are the names of infrastructure objects that went without a finalizer after a backup was restored, each that of its Machine.
	unheld map[string]bool
}

// listedAfter is when the cloud lists a new instance at the latest.
const listedAfter = 10 * time.Second

func newProvided() *provided {
	return &provided{
		slow: map[types.UID]time.Time{}, fresh: map[string]cloud.Instance{}, until: map[string]time.Time{}, unheld: map[string]bool{},
	}
}

// provider are the controllers of infrastructure and bootstrap objects, by the contract of Cluster API. They are an actor and see the API
// server as it is: what goes wrong with them is drawn. The token of an instance is the UID of its Machine.
// configGVK is the kind of bootstrap objects.
func configGVK() schema.GroupVersionKind { return fake.BootstrapConfigGVK(contract.V1Beta2) }

func configTemplateGVK() schema.GroupVersionKind {
	return configGVK().GroupVersion().WithKind(configGVK().Kind + contract.TemplateSuffix)
}

// referred are the objects of the providers.
func (w *World) referred() []*unstructured.Unstructured {
	return append(w.Objects(partGVK().Kind), w.Objects(configGVK().Kind)...)
}

func provider(_ context.Context, w *World) []due {
	var all []due
	for _, obj := range w.referred() {
		if !w.isOfPool(obj) && w.nextOf(obj) != nil {
			all = append(all, due{do: func() { w.providesFor(obj) }})
		}
	}
	if w.calm {
		all = append(all, w.givesUp()...)
	}
	return all
}

// works reports whether a provider does anything for an object now.
func (w *World) works(obj *unstructured.Unstructured) bool {
	return !isPaused(obj) && (w.calm || !w.Now().Before(w.provided.slow[obj.GetUID()]))
}

// providesFor does the next thing for an object, unless it was done or has become impossible meanwhile.
func (w *World) providesFor(obj *unstructured.Unstructured) {
	now := w.object(obj.GetKind(), obj.GetNamespace(), obj.GetName())
	if now == nil || now.GetUID() != obj.GetUID() {
		return
	}
	if do := w.nextOf(now); do != nil {
		do()
	}
}

// nextOf returns what a provider does next for an object; nil for nothing.
func (w *World) nextOf(obj *unstructured.Unstructured) func() {
	switch machine := w.machineOf(obj); {
	case !w.works(obj):
		return nil
	case obj.GetDeletionTimestamp() != nil:
		return w.removes(obj)
	case machine == nil:
		return nil
	case !slices.Contains(obj.GetFinalizers(), providerFinalizer):
		return w.holds(obj, providerFinalizer, true)
	case obj.GetKind() == configGVK().Kind:
		return w.bootstraps(obj)
	default:
		return w.builds(obj, machine)
	}
}

// machineOf returns the Machine that controls an object; nil while there is none.
func (w *World) machineOf(obj *unstructured.Unstructured) *unstructured.Unstructured {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return nil
	}
	m := w.object("Machine", obj.GetNamespace(), owner.Name)
	if m == nil || m.GetUID() != owner.UID {
		return nil
	}
	return m
}

// removes ends what an object stands for, and lets it go.
func (w *World) removes(obj *unstructured.Unstructured) func() {
	if !slices.Contains(obj.GetFinalizers(), providerFinalizer) {
		return nil
	}
	i, found := w.built(obj)
	switch {
	case found && i.State != cloud.Deleting:
		return func() {
			_, err := w.cloud.Delete(w.ctx, cloud.Request{Token: i.Token, ProviderID: i.ProviderID})
			w.taken[i.Token] = w.taken[i.Token] || isMisplaced(obj) // a provider does not know whose it is
			delete(w.provided.fresh, i.Token)
			w.note("provider", "delete the instance "+i.Name, said(err))
		}
	case found:
		return nil
	}
	return w.holds(obj, providerFinalizer, false)
}

// built is the instance of an infrastructure object.
func (w *World) built(obj *unstructured.Unstructured) (cloud.Instance, bool) {
	if obj.GetKind() != partGVK().Kind {
		return cloud.Instance{}, false
	}
	owner, id := metav1.GetControllerOf(obj), providerIDIn(obj)
	for _, i := range w.instances() {
		if id != "" && i.ProviderID == id || id == "" && owner != nil && i.Token == string(owner.UID) {
			return i, true
		}
	}
	if owner == nil {
		return cloud.Instance{}, false
	}
	i, fresh := w.provided.fresh[string(owner.UID)]
	return i, fresh && w.Now().Before(w.provided.until[i.Token])
}

// bootstraps makes the data of a bootstrap object, and reports it: the name of its Secret, and that it is there.
func (w *World) bootstraps(obj *unstructured.Unstructured) func() {
	name := textAt(obj, "status", "dataSecretName")
	created := textAt(obj, "status", "initialization", "dataSecretCreated") == "true"
	naming := w.states(obj, fmt.Sprintf(`{"status":{"dataSecretName":%q}}`, obj.GetName()))
	if w.object("Secret", obj.GetNamespace(), obj.GetName()) == nil {
		return func() { w.createsSecret(obj) }
	}
	return w.inTurn(name != "", created, naming, w.states(obj, `{"status":{"initialization":{"dataSecretCreated":true}}}`),
		w.states(obj, `{"status":{"initialization":{"dataSecretCreated":true},`+readyNow(w, true)+`}}`))
}

// createsSecret creates the Secret of a bootstrap object, which the garbage collector deletes with it.
func (w *World) createsSecret(obj *unstructured.Unstructured) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(obj, obj.GroupVersionKind())},
	}}
	w.note("provider", "create Secret "+secret.Name, said(w.store.Client().Create(w.ctx, secret)))
}

// builds makes the instance of an infrastructure object once its Machine has bootstrap data, and reports it: its provider ID, and that it
// is there.
func (w *World) builds(obj, machine *unstructured.Unstructured) func() {
	id := providerIDIn(obj)
	provisioned := textAt(obj, "status", "initialization", "provisioned") == "true"
	i, found := w.built(obj)
	report := w.states(obj, `{"status":{"initialization":{"provisioned":true},"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],`+
		readyNow(w, true)+`}}`)
	naming := w.writes(obj, fmt.Sprintf(`{"spec":{"providerID":%q}}`, i.ProviderID))
	switch {
	case hasFailure(obj) || textAt(machine, "spec", "bootstrap", "dataSecretName") == "" && !found && id == "":
		return nil
	case !found && id == "":
		return func() { w.createsInstance(obj, machine) }
	case !found: // the instance of an object that was restored is gone
		return w.states(obj, failedNow(w, "InstanceLost"))
	}
	return w.inTurn(id != "", provisioned, naming, report, report)
}

// inTurn names what was made and then reports it, or something too early in a history with that fault; nil when both are done.
func (w *World) inTurn(named, reported bool, name, early, report func()) func() {
	switch {
	case named && reported:
		return nil
	case named:
		return report
	case reported:
		return name
	}
	return func() {
		if w.drawn([]Fault{ProviderReportsHalf}, 2) == "" {
			name()
			return
		}
		w.seen[faultPrefix+string(ProviderReportsHalf)]++
		early()
	}
}

func (w *World) createsInstance(obj, machine *unstructured.Unstructured) {
	i, err := w.cloud.Create(w.ctx, cloud.Request{
		Token: string(machine.GetUID()), Name: obj.GetName(), Cluster: w.clusterOf(machine.GetNamespace()).name, Spec: []byte(`{"size":"small"}`),
	})
	w.provided.fresh[i.Token], w.provided.until[i.Token] = i, w.Now().Add(listedAfter)
	w.note("provider", "create the instance "+i.Name, said(err))
}

// writes returns a patch of an object by its provider, states one of its status, and holds one of a finalizer.
func (w *World) writes(obj *unstructured.Unstructured, body string) func() {
	return func() { w.patchAs(w.ctx, "provider", obj, body) }
}

func (w *World) states(obj *unstructured.Unstructured, body string) func() {
	return func() {
		err := w.store.Client().Status().Patch(w.ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)))
		w.note("provider", "patch "+obj.GetKind()+" "+obj.GetName()+" "+body, said(err))
	}
}

func (w *World) holds(obj *unstructured.Unstructured, finalizer string, on bool) func() {
	return w.writes(obj, withFinalizer(obj, finalizer, on))
}

// deletesAs is somebody who deletes an object.
func (w *World) deletesAs(who, what string, obj *unstructured.Unstructured) {
	w.note(who, "delete "+what, said(w.store.Client().Delete(w.ctx, obj.DeepCopy())))
}

// readyNow is the condition Ready of a provider.
func readyNow(w *World, ready bool) string {
	status, reason, message := metav1.ConditionTrue, "Ready", ""
	if !ready {
		status, reason, message = metav1.ConditionFalse, "ProviderFailed", "the provider has failed"
	}
	return `"conditions":` + jsonOf([]map[string]any{{
		"type": contract.ConditionReady, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": w.Now().UTC().Format(time.RFC3339),
	}})
}

// failedNow is the status of an object whose provider has failed for good.
func failedNow(w *World, reason string) string {
	return fmt.Sprintf(`{"status":{"failureReason":%q,"failureMessage":"simulated",%s}}`, reason, readyNow(w, false))
}

// deletesBuilt is called before a process has an infrastructure object deleted, with which its instance goes.
func (w *World) deletesBuilt(p *process, obj client.Object) {
	if gvk, err := gvkOf(obj); w.provided == nil || err != nil || gvk.Kind != partGVK().Kind {
		return
	}
	part := w.object(partGVK().Kind, obj.GetNamespace(), obj.GetName())
	if part == nil || part.GetDeletionTimestamp() != nil {
		return
	}
	if w.isOfPool(part) && w.apps != nil {
		w.fail(DrainsFirst, w.partDrained(p, part))
	} else if i, found := w.built(part); found {
		w.fail(DrainsFirst, w.drainsFirst(p, &cloud.Request{Token: i.Token, ProviderID: i.ProviderID}))
	}
}

// Faults of the providers of infrastructure and bootstrap objects, in the histories that have those.
const (
	// ProviderIsSlow: a provider does nothing for an object for minutes, be it to make or to delete something.
	ProviderIsSlow Fault = "provider is slow"
	// ProviderReportsHalf: it says that something is there before it says what.
	ProviderReportsHalf Fault = "provider reports half"
	// ProviderForgets: an object loses its status, which the provider writes again.
	ProviderForgets Fault = "provider forgets"
	// ProviderFails: it reports a failure that does not end.
	ProviderFails Fault = "provider fails"
	// UserDeletesPart: a person deletes an infrastructure or a bootstrap object.
	UserDeletesPart Fault = "user deletes a part"
)

func providerDisturbances() []disturbance {
	return []disturbance{
		{ProviderIsSlow, ofPart((*World).providerIsSlow)},
		{ProviderForgets, ofPart(func(w *World, obj *unstructured.Unstructured) { w.states(obj, `{"status":null}`)() })},
		{ProviderFails, ofPart(func(w *World, obj *unstructured.Unstructured) { w.states(obj, failedNow(w, "Broken"))() })},
		{UserDeletesPart, ofPart(func(w *World, obj *unstructured.Unstructured) {
			w.deletesAs("user", obj.GetKind()+" "+obj.GetName(), obj)
		})},
	}
}

// ofPart is what happens to one of the objects of the providers, of those in deletion in half of the cases.
func ofPart(do func(*World, *unstructured.Unstructured)) func(*World, context.Context) {
	return func(w *World, _ context.Context) {
		all := w.referred()
		leaving := slices.DeleteFunc(w.referred(), func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() == nil })
		if len(leaving) > 0 && w.choices.pick(2) == 0 {
			all = leaving
		}
		if len(all) > 0 {
			do(w, all[w.choices.pick(len(all))])
		}
	}
}

func (w *World) providerIsSlow(obj *unstructured.Unstructured) {
	lasts := []time.Duration{20 * time.Second, 3 * time.Minute, 20 * time.Minute}[w.choices.pick(3)]
	w.provided.slow[obj.GetUID()] = w.Now().Add(lasts)
	w.note("provider", fmt.Sprintf("does nothing for %s %s for %s", obj.GetKind(), obj.GetName(), lasts), "")
}

// givesUp is the person who deletes the Machines that have failed for good once the faults have stopped, and those whose object was
// deleted.
func (w *World) givesUp() []due {
	var all []due
	for _, m := range w.owned() {
		if m.GetDeletionTimestamp() == nil && w.hasFailed(m) {
			all = append(all, due{do: func() { w.deletesAs("user", "Machine "+m.GetName()+", which has failed", m) }})
		}
	}
	return all
}

// hasFailed reports whether nothing but a deletion helps a Machine.
func (w *World) hasFailed(m *unstructured.Unstructured) bool {
	return slices.ContainsFunc(w.refsOf(m), func(ref partRef) bool {
		obj := w.object(ref.kind, m.GetNamespace(), ref.name)
		return obj == nil || obj.GetDeletionTimestamp() != nil || hasFailure(obj)
	})
}

// hasFailure reports whether a provider has failed for good.
func hasFailure(obj *unstructured.Unstructured) bool {
	return textAt(obj, "status", "failureReason") != ""
}
