package fake

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// PoolInfrastructure is an infrastructure provider that fulfils the InfraMachinePool contract without a cloud: it waits for its
// MachinePool and for the data secret name, "creates" as many instances as that wants, reports them, and lets a Node join for each. An
// instance that goes leaves its Node behind, as with a real cloud. Set it up before the manager starts.
type PoolInfrastructure struct {
	// Contract is the version to speak. Default v1beta2.
	Contract contract.Version
	// Owner is the kind of the pools. Default MachinePoolGVK.
	Owner schema.GroupVersionKind
	// Lag is how long a change takes to be seen in what is reported.
	Lag time.Duration
	// Batch is how many instances come or go at once; 0 is all of them.
	Batch int
	// Disorder, when it is not zero, seeds another order of the list for every change of it, in which one ID stands twice.
	Disorder uint64
	// AskForDrain has the provider name instances that shall go (contract.LeavingInstancesAnnotation) and wait until their Nodes say
	// that they were drained.
	AskForDrain bool
	// Machines has the provider make an InfraMachine for every instance, and delete Machines where it would take instances away: first
	// those with the annotation cluster.x-k8s.io/delete-machine, then the oldest.
	Machines bool
	// NoNode keeps Nodes from joining. Node makes the Node that joins; nil is Node(name of the instance, its provider ID).
	NoNode bool
	Node   func(name, providerID string) *corev1.Node
	// Name must be unique in a process. Default: the provided kind in lower case.
	Name string

	client client.Client
}

// poolFinalizer keeps an InfraMachinePool until its instances are gone.
const poolFinalizer = "fake.machinist.dev/machinepool"

// poolPoll is how often the provider looks at what it waits for.
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
		obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(name string) bool { return name == poolFinalizer }))
		return reconcile.Result{}, client.IgnoreNotFound(i.client.Patch(ctx, obj, client.MergeFrom(before)))
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
	if !slices.Contains(obj.GetFinalizers(), poolFinalizer) {
		obj.SetFinalizers(append(obj.GetFinalizers(), poolFinalizer))
	}
	after, err := i.scale(ctx, obj, owner, int(replicas))
	if err != nil {
		return reconcile.Result{}, err
	}
	err = p.save(ctx, before, obj)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: poolPoll}, nil
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// scale brings the instances a step nearer to what is wanted, and reports them.
func (i *PoolInfrastructure) scale(ctx context.Context, obj, owner *unstructured.Unstructured, replicas int) (time.Duration, error) {
	instances, err := i.instances(obj)
	if err != nil {
		return 0, err
	}
	var after time.Duration
	if len(instances) != replicas && i.Lag > 0 {
		time.Sleep(i.Lag) // a cloud that answers late
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
	annotations := maps.Clone(obj.GetAnnotations())
	if len(instances) <= replicas && annotations != nil {
		delete(annotations, contract.LeavingInstancesAnnotation)
		obj.SetAnnotations(annotations)
	}
	if len(instances) != replicas {
		after = poolPoll
	}
	return after, i.report(obj, instances)
}

// instances are the IDs that were reported, by ordinal.
func (i *PoolInfrastructure) instances(obj *unstructured.Unstructured) (map[int]string, error) {
	list, _, err := contract.InfraMachinePool(i.Contract).ProviderIDList.Get(obj.Object, nil)
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

// nextInstance is the annotation with the ordinal of the next instance: none is used twice.
const nextInstance = "fake.machinist.dev/next-instance"

// start "creates" one instance, again if what came of it was not written down.
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
	infra.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID()}})
	err := i.client.Create(ctx, infra)
	if apierrors.IsAlreadyExists(err) { // its status may not have been written
		err = i.client.Get(ctx, client.ObjectKeyFromObject(infra), infra)
	}
	if err != nil {
		return err
	}
	base := infra.DeepCopy()
	if err := contract.InfraMachine(i.Contract).Provisioned.Set(infra.Object, true); err != nil {
		return err
	}
	return i.client.Status().Patch(ctx, infra, client.MergeFrom(base))
}

// shrink takes away what is going already, then what is marked, then the oldest instances.
func (i *PoolInfrastructure) shrink(ctx context.Context, obj *unstructured.Unstructured, have map[int]string, replicas int) (map[int]string, error) {
	ordinals, err := i.leavingOrder(ctx, obj, have)
	if err != nil {
		return nil, err
	}
	var leaving []string
	left := i.atMost(len(have))
	for _, ordinal := range ordinals[:len(ordinals)-replicas] {
		gone, err := i.stop(ctx, obj, instanceName(obj, ordinal))
		switch {
		case err != nil:
			return nil, err
		case gone && left > 0:
			delete(have, ordinal)
			left--
		default:
			leaving = append(leaving, have[ordinal])
		}
	}
	if i.AskForDrain {
		WithAnnotations(map[string]string{contract.LeavingInstancesAnnotation: strings.Join(leaving, ",")})(obj)
	}
	return have, nil
}

// leavingOrder says which instances go first.
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
	turn := func(ordinal int) int {
		name := instanceName(obj, ordinal)
		return turnToLeave(machines[name], infras[name])
	}
	slices.SortStableFunc(ordinals, func(a, b int) int { return turn(a) - turn(b) })
	return ordinals, nil
}

// turnToLeave is 0 for an instance that is going or gone, 1 for one whose Machine is marked, and 2 for any other. A Machine may not be
// there yet, an InfraMachine is from the start.
func turnToLeave(machine, infra *unstructured.Unstructured) int {
	going := infra == nil || infra.GetDeletionTimestamp() != nil
	marked := false
	if machine != nil {
		going = going || machine.GetDeletionTimestamp() != nil
		_, marked = machine.GetAnnotations()[scale.DeleteAnnotation]
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

// stop "deletes" one instance, or waits for what has to happen before, and says whether it is gone.
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
	var node corev1.Node
	if err := i.client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return node.Annotations[contract.DrainedAnnotation] == string(node.UID), nil
}

// report writes into the object what the contract asks for.
func (i *PoolInfrastructure) report(obj *unstructured.Unstructured, instances map[int]string) error {
	layout := contract.InfraMachinePool(i.Contract)
	reported, err := i.instances(obj)
	if err != nil {
		return err
	}
	if path := layout.ProviderIDList.Path().Segments(); len(instances) == 0 { // as the contract's Go type has it: providerIDList,omitempty
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
		if err := layout.InfrastructureMachineKind.Set(obj.Object, InfraMachineGVK(i.Contract).Kind); err != nil {
			return err
		}
	}
	if err := layout.Replicas.Set(obj.Object, int32(len(instances))); err != nil { //nolint:gosec // as many as a test asks for
		return err
	}
	return layout.Provisioned.Set(obj.Object, true)
}
