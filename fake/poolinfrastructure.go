package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// PoolInfrastructure is an infrastructure provider that fulfils the InfraMachinePool contract without a cloud: it waits
// for its MachinePool and for the data secret name, "creates" the wanted number of instances, reports them, and creates
// a Node for each. The Node of a deleted instance stays, as with a real cloud. Set it up before the manager starts.
type PoolInfrastructure struct {
	// Contract is the contract version. Default v1beta2.
	Contract contract.Version
	// Owner is the kind of the pools. Default MachinePoolGVK.
	Owner schema.GroupVersionKind
	// Lag delays the report of a change.
	Lag time.Duration
	// Batch is how many instances are created or deleted at once; 0 is all of them.
	Batch int
	// Disorder, if not zero, is the seed of a random order of the reported list, which also repeats one ID.
	Disorder uint64
	// AskForDrain makes the provider mark the Nodes of instances that it will delete (scale.DeleteAnnotation), and wait
	// until the Nodes are marked as drained. It removes the mark of an instance that stays.
	AskForDrain bool
	// Machines makes the provider create an InfraMachine for each instance, and delete Machines instead of instances:
	// first those with an annotation of scale.Marks for the API group of Owner, then the oldest.
	Machines bool
	// NoNode disables the creation of Nodes. Node returns the Node to create; nil is Node(name of the instance, its
	// provider ID).
	NoNode bool
	Node   func(name, providerID string) *corev1.Node
	// Name must be unique in a process. Default: the provided kind in lower case.
	Name string

	client client.Client
}

// poolFinalizer blocks the deletion of an InfraMachinePool until its instances are gone.
const poolFinalizer = "fake.machinist.dev/machinepool"

// poolPoll is the polling interval of the provider.
const poolPoll = 100 * time.Millisecond

// SetupWithManager adds the provider to a manager. The CRD of its kind must be installed.
func (i *PoolInfrastructure) SetupWithManager(mgr ctrl.Manager) error {
	if i.Contract == "" {
		i.Contract = contract.V1Beta2
	}
	if i.Owner.Empty() {
		i.Owner = MachinePoolGVK()
	}
	if i.Node == nil {
		i.Node = Node
	}
	gvk := InfraMachinePoolGVK(i.Contract)
	if i.Name == "" {
		i.Name = strings.ToLower(gvk.Kind) + "-" + string(i.Contract)
	}
	i.client = mgr.GetClient()
	owned := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, pool client.Object) []reconcile.Request {
		u, ok := pool.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		name, _, _ := unstructured.NestedString(u.Object, "spec", "template", "spec", "infrastructureRef", "name")
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: u.GetNamespace(), Name: name}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named(i.Name).For(empty(gvk)).Watches(empty(i.Owner), owned).Complete(i)
}

// Reconcile implements controller-runtime's Reconciler.
func (i *PoolInfrastructure) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := empty(InfraMachinePoolGVK(i.Contract))
	if err := i.client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p := &provider{client: i.client}
	before := obj.DeepCopy()
	if obj.GetDeletionTimestamp() != nil {
		return p.release(ctx, obj, poolFinalizer)
	}
	name := controllerOf(obj, i.Owner.Kind)
	if name == "" {
		return reconcile.Result{}, nil
	}
	owner := empty(i.Owner)
	if err := i.client.Get(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}, owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	replicas, sized, _ := unstructured.NestedInt64(owner.Object, "spec", "replicas")
	_, bootstrapped, _ := unstructured.NestedString(owner.Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
	if !sized || !bootstrapped || owner.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	if controllerutil.AddFinalizer(obj, poolFinalizer) { // stored before there is an instance
		if err := p.patch(ctx, before, obj, false); err != nil {
			return afterConflict(reconcile.Result{}, err)
		}
		before = obj.DeepCopy()
	}
	after, err := i.scale(ctx, obj, owner, int(replicas))
	if err != nil {
		return reconcile.Result{}, err
	}
	return afterConflict(reconcile.Result{RequeueAfter: after}, p.save(ctx, before, obj, nil))
}

// scale brings the number of instances one step closer to replicas, and reports them.
func (i *PoolInfrastructure) scale(ctx context.Context, obj, owner *unstructured.Unstructured, replicas int) (time.Duration, error) {
	instances, err := i.instances(obj)
	if err != nil {
		return 0, err
	}
	var after time.Duration
	if len(instances) != replicas && i.Lag > 0 {
		select {
		case <-time.After(i.Lag): // simulates a slow cloud API
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	switch n := len(instances); {
	case n < replicas:
		instances, err = i.grow(ctx, obj, owner, instances, replicas)
	case n > replicas:
		instances, err = i.shrink(ctx, obj, instances, replicas)
	}
	if err != nil {
		return 0, err
	}
	if i.AskForDrain && len(instances) <= replicas {
		for ordinal := range instances {
			if _, err := i.asked(ctx, instanceName(obj, ordinal), nil); err != nil {
				return 0, err
			}
		}
	}
	if len(instances) != replicas {
		after = poolPoll
	}
	return after, i.report(obj, instances)
}

// instances returns the reported IDs by ordinal.
func (i *PoolInfrastructure) instances(obj *unstructured.Unstructured) (map[int]string, error) {
	list, _, err := contract.InfraMachinePool(i.Contract).ProviderIDList.Get(obj.Object)
	if err != nil {
		return nil, err
	}
	instances := map[int]string{}
	for _, id := range list {
		ordinal, err := strconv.Atoi(id[strings.LastIndexByte(id, '/')+1:])
		if err != nil {
			return nil, fmt.Errorf("provider ID %s: %w", id, err)
		}
		instances[ordinal] = id
	}
	return instances, nil
}

func instanceName(obj *unstructured.Unstructured, ordinal int) string {
	return obj.GetName() + "-" + strconv.Itoa(ordinal)
}

func (i *PoolInfrastructure) grow(
	ctx context.Context, obj, owner *unstructured.Unstructured, have map[int]string, replicas int,
) (map[int]string, error) {
	next, _ := strconv.Atoi(obj.GetAnnotations()[nextInstance]) // 0 before the first
	for range i.atMost(replicas - len(have)) {
		id := ProviderID(obj) + "/" + strconv.Itoa(next)
		if err := i.start(ctx, obj, owner, instanceName(obj, next), id); err != nil {
			return nil, err
		}
		have[next] = id
		next++
	}
	WithAnnotations(map[string]string{nextInstance: strconv.Itoa(next)})(obj)
	return have, nil
}

func (i *PoolInfrastructure) atMost(n int) int {
	if i.Batch > 0 {
		return min(n, i.Batch)
	}
	return n
}

// nextInstance is the annotation with the ordinal of the next instance; no ordinal is used twice.
const nextInstance = "fake.machinist.dev/next-instance"

// start "creates" one instance. It is repeated if its result was not recorded.
func (i *PoolInfrastructure) start(ctx context.Context, obj, owner *unstructured.Unstructured, name, id string) error {
	if i.Machines {
		if err := i.startMachine(ctx, obj, owner, name, id); err != nil {
			return err
		}
	}
	if i.NoNode {
		return nil
	}
	return client.IgnoreAlreadyExists(i.client.Create(ctx, i.Node(name, id)))
}

func (i *PoolInfrastructure) startMachine(ctx context.Context, obj, owner *unstructured.Unstructured, name, id string) error {
	infra := InfraMachine(i.Contract, name, InNamespace(obj.GetNamespace()), WithField(id, "spec", "providerID"), WithLabels(map[string]string{
		contract.PoolNameLabel: contract.LabelValue(owner.GetName()), contract.ClusterNameLabel: obj.GetLabels()[contract.ClusterNameLabel],
	}))
	infra.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(),
		UID: obj.GetUID()}})
	err := i.client.Create(ctx, infra)
	if apierrors.IsAlreadyExists(err) { // its status may be missing
		err = i.client.Get(ctx, client.ObjectKeyFromObject(infra), infra)
	}
	if err != nil {
		return err
	}
	base := infra.DeepCopy()
	if err := contract.Set(contract.InfraMachine(i.Contract).Provisioned, infra.Object, true); err != nil {
		return err
	}
	return i.client.Status().Patch(ctx, infra, client.MergeFrom(base))
}

// shrink removes instances that are being deleted, then marked ones, then the oldest.
func (i *PoolInfrastructure) shrink(ctx context.Context, obj *unstructured.Unstructured, have map[int]string,
	replicas int) (map[int]string, error) {
	ordinals, err := i.leavingOrder(ctx, obj, have)
	if err != nil {
		return nil, err
	}
	left := i.atMost(len(have))
	for _, ordinal := range ordinals[:len(ordinals)-replicas] {
		gone, err := i.stop(ctx, obj, instanceName(obj, ordinal))
		if err != nil {
			return nil, err
		}
		if gone && left > 0 {
			delete(have, ordinal)
			left--
		}
	}
	return have, nil
}

// leavingOrder returns the order in which instances are removed.
func (i *PoolInfrastructure) leavingOrder(ctx context.Context, obj *unstructured.Unstructured, have map[int]string) ([]int, error) {
	ordinals := slices.Sorted(maps.Keys(have))
	if !i.Machines {
		return ordinals, nil
	}
	machines, err := i.byName(ctx, MachineGVK(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	infras, err := i.byName(ctx, InfraMachineGVK(i.Contract), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	marks := scale.Marks(i.Owner.Group)
	turn := func(ordinal int) int {
		name := instanceName(obj, ordinal)
		return turnToLeave(machines[name], infras[name], marks)
	}
	slices.SortStableFunc(ordinals, func(a, b int) int { return turn(a) - turn(b) })
	return ordinals, nil
}

// turnToLeave is 0 for an instance that is gone or being deleted, 1 for one whose Machine is marked, and 2 for others.
// The Machine may not exist yet; the InfraMachine exists from the start.
func turnToLeave(machine, infra *unstructured.Unstructured, marks []string) int {
	going := infra == nil || infra.GetDeletionTimestamp() != nil
	marked := false
	if machine != nil {
		going = going || machine.GetDeletionTimestamp() != nil
		marked = scale.Marked(machine.GetAnnotations(), marks...)
	}
	switch {
	case going:
		return 0
	case marked:
		return 1
	}
	return 2
}

func (i *PoolInfrastructure) byName(
	ctx context.Context, gvk schema.GroupVersionKind, namespace string,
) (map[string]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := i.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	out := map[string]*unstructured.Unstructured{}
	for n := range list.Items {
		out[list.Items[n].GetName()] = &list.Items[n]
	}
	return out, nil
}

// stop "deletes" one instance, or waits for its drain or Machine, and reports whether it is gone.
func (i *PoolInfrastructure) stop(ctx context.Context, obj *unstructured.Unstructured, name string) (bool, error) {
	if i.Machines {
		machine := empty(MachineGVK())
		machine.SetNamespace(obj.GetNamespace())
		machine.SetName(name)
		if err := client.IgnoreNotFound(i.client.Delete(ctx, machine)); err != nil {
			return false, err
		}
		err := i.client.Get(ctx, client.ObjectKeyFromObject(machine), InfraMachine(i.Contract, name))
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if !i.AskForDrain {
		return true, nil
	}
	node, err := i.asked(ctx, name, new(string))
	return node == nil || node.Annotations[contract.DrainedAnnotation] == string(node.UID), err
}

// asked brings the mark that asks for the drain of a Node to a value, nil for none, and returns the Node, nil if there is none.
func (i *PoolInfrastructure) asked(ctx context.Context, name string, mark *string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := i.client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if scale.Marked(node.Annotations) == (mark != nil) {
		return node, nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{scale.DeleteAnnotation: mark}}})
	if err != nil {
		return nil, err
	}
	err = i.client.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	return node, client.IgnoreNotFound(err)
}

// report writes the fields of the contract into the object.
func (i *PoolInfrastructure) report(obj *unstructured.Unstructured, instances map[int]string) error {
	layout := contract.InfraMachinePool(i.Contract)
	reported, err := i.instances(obj)
	if err != nil {
		return err
	}
	if path := layout.ProviderIDList.Path().Segments(); len(instances) == 0 { // the contract's Go type has providerIDList,omitempty
		unstructured.RemoveNestedField(obj.Object, path...)
	} else if !maps.Equal(reported, instances) {
		list := make([]any, 0, len(instances)+1)
		for _, ordinal := range slices.Sorted(maps.Keys(instances)) {
			list = append(list, instances[ordinal])
		}
		if i.Disorder != 0 {
			random := rand.New(rand.NewPCG(i.Disorder, uint64(len(list)))) //nolint:gosec // an order for tests
			list = append(list, list[random.IntN(len(list))])
			random.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		}
		if err := unstructured.SetNestedSlice(obj.Object, list, path...); err != nil {
			return err
		}
	}
	if i.Machines {
		if err := contract.Set(layout.InfrastructureMachineKind, obj.Object, InfraMachineGVK(i.Contract).Kind); err != nil {
			return err
		}
	}
	if err := contract.Set(layout.Replicas, obj.Object, int32(len(instances))); err != nil { //nolint:gosec // as many as a test asks for
		return err
	}
	return contract.Set(layout.Provisioned, obj.Object, true)
}
