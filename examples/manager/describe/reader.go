package describe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// Reader reads what a description needs. It is safe for concurrent use.
type Reader struct {
	// Client reads the Machines, and Nodes the Nodes, Pods and budgets of the cluster that the Machines belong to. Nodes is Client by default.
	Client, Nodes client.Reader
	Kinds         deployment.Kinds
	// Now is the time that plans of drains are made for.
	Now time.Time
}

func (r Reader) nodes() client.Reader { return cmp.Or(r.Nodes, r.Client) }

// Machine reads one Machine with its Node, the Pods that its drain waits for, and its events. What cannot be read besides the Machine is
// described as such. The error is that of the API server for the Machine.
func (r Reader) Machine(ctx context.Context, key types.NamespacedName) (Machine, error) {
	obj := r.Kinds.Machine.New()
	if err := r.Client.Get(ctx, key, obj); err != nil {
		return Machine{}, fmt.Errorf("get machine %s: %w", key, err)
	}
	var m contract.MachineState
	if err := r.Kinds.Machine.Adapter.Read(obj, &m); err != nil {
		return Machine{}, fmt.Errorf("read machine %s: %w", key, err)
	}
	d := machineOf(&m)
	if d.Node != nil {
		nodes, held := r.look(ctx, []contract.MachineState{m})
		d.Node, d.Holds = nodes[d.Node.Name], held[d.Node.Name]
	}
	d.Events = r.events(ctx, &m)
	return d, nil
}

func (r Reader) events(ctx context.Context, m *contract.MachineState) []Event {
	var list corev1.EventList
	of := client.MatchingFields{"involvedObject.uid": string(m.UID)}
	if err := r.Client.List(ctx, &list, client.InNamespace(m.Key.Namespace), of); err != nil {
		return []Event{{Time: r.Now, Type: corev1.EventTypeWarning, Reason: "EventsUnread", Message: err.Error()}}
	}
	return newest(list.Items)
}

// Tree reads a deployment with its sets, their Machines and Nodes, and the Pods and budgets that hold drains. The error is that of the API
// server for one of the first three; what cannot be read of Nodes is described as such.
func (r Reader) Tree(ctx context.Context, key types.NamespacedName) (Tree, error) {
	obj := r.Kinds.Deployment.New()
	if err := r.Client.Get(ctx, key, obj); err != nil {
		return Tree{}, fmt.Errorf("get machinedeployment %s: %w", key, err)
	}
	var f Facts
	err := r.Kinds.Deployment.Adapter.Read(obj, &f.Deployment)
	if err != nil {
		return Tree{}, fmt.Errorf("read machinedeployment %s: %w", key, err)
	}
	if f.Sets, err = listOf(ctx, r.Client, r.Kinds.Set, key.Namespace); err != nil {
		return Tree{}, err
	}
	if f.Machines, err = listOf(ctx, r.Client, r.Kinds.Machine, key.Namespace); err != nil {
		return Tree{}, err
	}
	f.Machines = slices.DeleteFunc(f.Machines, func(m contract.MachineState) bool {
		return !slices.ContainsFunc(f.Sets, func(s contract.MachineSetState) bool {
			return owns(f.Deployment.UID, s.OwnerReferences) && owns(s.UID, m.OwnerReferences)
		})
	})
	f.Nodes, f.Holds = r.look(ctx, f.Machines)
	return TreeOf(f), nil
}

// look reads the Nodes of Machines, and what holds the drains of those that drain.
func (r Reader) look(ctx context.Context, machines []contract.MachineState) (map[string]*Node, map[string][]Hold) {
	found := map[string]*Node{}
	var draining []string
	for i := range machines {
		name := machines[i].Node.Name
		if name == "" {
			continue
		}
		found[name] = r.node(ctx, machines[i].Node)
		deleting := meta.FindStatusCondition(machines[i].Conditions, contract.ConditionDeleting)
		if deleting != nil && deleting.Reason == contract.ReasonDrainingNode && found[name].Problem == "" {
			draining = append(draining, name)
		}
	}
	if len(draining) == 0 {
		return found, nil
	}
	pods, facts, err := runner.Look(ctx, r.nodes(), r.Now, draining...)
	if err != nil {
		for _, name := range draining {
			found[name].Problem = "its Pods cannot be read: " + err.Error()
		}
		return found, nil
	}
	rules := drain.ClusterAPIRules(nil, func(string) (map[string]string, bool) { return nil, false })
	return found, holds(drain.Planner{Rules: rules}.Plan(pods, facts))
}

func (r Reader) node(ctx context.Context, ref contract.NodeRef) *Node {
	found := &Node{Name: ref.Name}
	node := &corev1.Node{}
	switch err := r.nodes().Get(ctx, types.NamespacedName{Name: ref.Name}, node); {
	case apierrors.IsNotFound(err):
		found.Problem = "does not exist"
	case err != nil:
		found.Problem = "cannot be read: " + err.Error()
	case ref.UID != "" && node.UID != ref.UID:
		found.Problem = "is another Node of this name"
	default:
		found.read(node)
	}
	return found
}

// listOf reads all objects of a kind in a namespace.
func listOf[S, U any](ctx context.Context, c client.Reader, kind contract.KindOf[S, U], namespace string) ([]S, error) {
	list, ok := kind.NewList().(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("list %s: the kind has no list of objects", kind.GVK.Kind)
	}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", kind.GVK.Kind, namespace, err)
	}
	var all []S
	err := meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(contract.Object)
		if !ok {
			return fmt.Errorf("list %s: an item is of type %T", kind.GVK.Kind, item)
		}
		var state S
		if err := kind.Adapter.Read(obj, &state); err != nil {
			return fmt.Errorf("read %s %s: %w", kind.GVK.Kind, client.ObjectKeyFromObject(obj), err)
		}
		all = append(all, state)
		return nil
	})
	return all, err
}
