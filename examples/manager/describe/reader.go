package describe

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// Reader reads what a description needs. It is safe for concurrent use.
type Reader struct {
	// Client reads the Machines, and Nodes the Nodes, Pods and budgets of the cluster that the Machines belong to. Nodes is Client by default.
	Client, Nodes client.Reader
	// Kind is that of the Machines.
	Kind contract.Kind
	// Now is the time that plans of drains are made for.
	Now time.Time
}

func (r Reader) nodes() client.Reader { return cmp.Or(r.Nodes, r.Client) }

// Machine reads one Machine with its Node, the Pods that its drain waits for, and its events. What cannot be read besides the Machine is
// described as such. The error is that of the API server for the Machine.
func (r Reader) Machine(ctx context.Context, key types.NamespacedName) (Machine, error) {
	obj := r.Kind.New()
	if err := r.Client.Get(ctx, key, obj); err != nil {
		return Machine{}, fmt.Errorf("get machine %s: %w", key, err)
	}
	var m contract.MachineState
	if err := r.Kind.Adapter.Read(obj, &m); err != nil {
		return Machine{}, fmt.Errorf("read machine %s: %w", key, err)
	}
	d := machineOf(&m, r.Now)
	if d.Node != nil {
		d.Node = r.node(ctx, m.Node)
		deleting := meta.FindStatusCondition(m.Conditions, contract.ConditionDeleting)
		if deleting != nil && deleting.Reason == contract.ReasonDrainingNode && d.Node.Problem == "" {
			d.Holds = r.holds(ctx, d.Node)
		}
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

// holds returns what holds the drain of a Node. What cannot be read is a problem of the Node.
func (r Reader) holds(ctx context.Context, node *Node) []Hold {
	pods, facts, err := runner.Look(ctx, r.nodes(), node.Name)
	if err != nil {
		node.Problem = "its Pods cannot be read: " + err.Error()
		return nil
	}
	rules := drain.ClusterAPIRules(nil, func(string) (map[string]string, bool) { return nil, false })
	return holds(drain.Planner{Rules: rules}.Plan(pods, facts))[node.Name]
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
