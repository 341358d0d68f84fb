package fake

import (
	"cmp"
	"context"
	"errors"
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

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// PoolInfrastructure is an infrastructure provider that fulfils the InfraMachinePool contract without a cloud: it waits for its MachinePool
// and for the data secret name, "creates" the desired number of instances, reports them, and creates a Node for each. The Node of a deleted
// instance remains, as with a real cloud. Set it up before the manager starts.
type PoolInfrastructure struct {
	// Contract is the contract version. Default v1beta2.
	Contract contract.Version
	// Owner is the kind of the pools. Default MachinePoolGVK.
	Owner schema.GroupVersionKind
	// Batch is how many instances are created or deleted at once, before the next batch; 0 means all of them.
	Batch int
	// Disorder, if not zero, is the seed of a random order of the reported list, which also repeats one ID.
	Disorder uint64
	// RequestDrain makes the provider mark the Nodes of instances that it will delete (scale.DeleteAnnotation), and wait until the Nodes are
	// marked as drained. It removes the mark when it will not delete the instance.
	RequestDrain bool
	// Machines makes the provider create an InfraMachine for each instance, and delete Machines instead of instances:
	// first those with an annotation of scale.Marks for the API group of Owner, then the oldest.
	Machines bool
	// NoNode disables the creation of Nodes. Node returns the Node to create; nil means Node(name of the instance, its provider ID).
	NoNode bool
	Node   func(name, providerID string) *corev1.Node
	// Name must be unique in a process. Default: the provided kind in lower case, and the contract version.
	Name string

	client client.Client
}

// poolPoll is the polling interval of the provider.
const poolPoll = 100 * time.Millisecond

// SetupWithManager adds the provider to a manager. The CRD of its kind must be installed.
func (i *PoolInfrastructure) SetupWithManager(mgr ctrl.Manager) error {
	i.Contract = cmp.Or(i.Contract, contract.V1Beta2)
	i.Owner = cmp.Or(i.Owner, MachinePoolGVK())
	if i.Node == nil {
		i.Node = Node
	}
	i.client = mgr.GetClient()
	p := &provider{
		ProviderOptions: ProviderOptions{Machine: i.Owner, Name: i.Name}, gvk: InfraMachinePoolGVK(i.Contract),
		reference: []string{"spec", "template", "spec", "infrastructureRef", "name"}, create: i.scale,
		ready: func(pool *unstructured.Unstructured) bool {
			_, sized, _ := unstructured.NestedInt64(pool.Object, "spec", "replicas")
			_, bootstrapped, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
			return sized && bootstrapped && pool.GetDeletionTimestamp() == nil
		},
	}
	return p.setup(mgr)
}

// scale brings the number of instances one step closer to that of the pool, and reports them.
func (i *PoolInfrastructure) scale(ctx context.Context, e *edit, pool *unstructured.Unstructured) (again time.Duration, err error) {
	if err := e.save(ctx); err != nil {
		return 0, err // the finalizer is stored before there is an instance
	}
	obj := e.Unstructured
	replicas, _, _ := unstructured.NestedInt64(pool.Object, "spec", "replicas")
	instances, err := i.instances(obj)
	if err != nil {
		return 0, err
	}
	switch n, wanted := len(instances), int(replicas); {
	case n < wanted:
		err = i.grow(ctx, obj, pool, instances, wanted)
	case n > wanted:
		err = i.shrink(ctx, obj, instances, wanted)
	}
	if err != nil {
		return 0, err
	}
	if i.RequestDrain && len(instances) <= int(replicas) {
		for ordinal := range instances {
			if _, err := i.mark(ctx, instanceName(obj, ordinal), false); err != nil {
				return 0, err
			}
		}
	}
	if len(instances) != int(replicas) {
		again = poolPoll
	}
	return again, i.report(obj, instances)
}

// instances returns the reported IDs by ordinal.
func (i *PoolInfrastructure) instances(obj *unstructured.Unstructured) (map[int]string, error) {
	list, _, err := contract.LayoutsOf(i.Contract).InfraMachinePool.ProviderIDList.Get(obj.Object)
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

func (i *PoolInfrastructure) grow(ctx context.Context, obj, pool *unstructured.Unstructured, have map[int]string, replicas int) error {
	next, _ := strconv.Atoi(obj.GetAnnotations()[nextInstance]) // 0 before the first
	for range i.atMost(replicas - len(have)) {
		id := ProviderID(obj) + "/" + strconv.Itoa(next)
		if err := i.start(ctx, obj, pool, instanceName(obj, next), id); err != nil {
			return err
		}
		have[next] = id
		next++
	}
	WithAnnotations(map[string]string{nextInstance: strconv.Itoa(next)})(obj)
	return nil
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
	e := newEdit(i.client, infra)
	return errors.Join(contract.Set(contract.LayoutsOf(i.Contract).InfraMachine.Provisioned, infra.Object, true), e.save(ctx))
}

// shrink removes instances that are being deleted, then marked ones, then the oldest.
func (i *PoolInfrastructure) shrink(ctx context.Context, obj *unstructured.Unstructured, have map[int]string, replicas int) error {
	ordinals, err := i.leavingOrder(ctx, obj, have)
	if err != nil {
		return err
	}
	left := i.atMost(len(have))
	for _, ordinal := range ordinals[:len(ordinals)-replicas] {
		gone, err := i.stop(ctx, obj, instanceName(obj, ordinal))
		if err != nil {
			return err
		}
		if gone && left > 0 {
			delete(have, ordinal)
			left--
		}
	}
	return nil
}

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

// turnToLeave returns 0 for an instance that is gone or being deleted, 1 for one whose Machine is marked, and 2 for others. The Machine may
// not exist yet; the InfraMachine exists from the start.
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
		machine := Machine(name, InNamespace(obj.GetNamespace()))
		if err := client.IgnoreNotFound(i.client.Delete(ctx, machine)); err != nil {
			return false, err
		}
		err := i.client.Get(ctx, client.ObjectKeyFromObject(machine), InfraMachine(i.Contract, name))
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if !i.RequestDrain {
		return true, nil
	}
	node, err := i.mark(ctx, name, true)
	return node == nil || node.Annotations[contract.DrainedAnnotation] == string(node.UID), err
}

// mark adds or removes the mark on the Node of an instance that requests its drain. It returns the Node, nil if there is none.
func (i *PoolInfrastructure) mark(ctx context.Context, name string, marks bool) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := i.client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if scale.Marked(node.Annotations) == marks {
		return node, nil
	}
	base := node.DeepCopy()
	delete(node.Annotations, scale.DeleteAnnotation)
	if marks {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, scale.DeleteAnnotation, "")
	}
	return base, client.IgnoreNotFound(i.client.Patch(ctx, node, client.MergeFrom(base)))
}

// report writes the fields of the contract into the object.
func (i *PoolInfrastructure) report(obj *unstructured.Unstructured, instances map[int]string) error {
	layout := contract.LayoutsOf(i.Contract).InfraMachinePool
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
	replicas := int32(len(instances)) //nolint:gosec // as many as a test requests
	return errors.Join(contract.Set(layout.Replicas, obj.Object, replicas), contract.Set(layout.Provisioned, obj.Object, true))
}
