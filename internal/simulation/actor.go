package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// actor is a part of the World that acts by itself, beside the processes and the users. It returns what it can do, now or later although
// nothing else happens, in an order that nothing but the history decides. Each function allows for what others did meanwhile.
type actor func(context.Context, *World) []due

// due is what happens at a time; at once with the zero time.
type due struct {
	at time.Time
	do func()
	// events is how many there are of a watch, which may lag.
	events int
}

func (w *World) addActors() {
	w.apps = w.drawApps()
	w.loops = w.store.Step(w.apps.loops())
	w.actors = []actor{deliveries, reconciliations, network, kubelets(), updater, tidier, loops, opponents, guests, gitOps}
	if w.apps != nil {
		w.actors = append(w.actors, drainers, evictions)
	}
	if w.health != nil {
		w.actors = append(w.actors, probes, reports)
	}
	if w.habits != nil {
		w.actors = append(w.actors, collectors)
	}
	if w.provided != nil {
		w.actors = append(w.actors, provider)
	}
	if w.pool != nil {
		w.pool.requestsDrain = w.pool.requestsDrain && w.apps != nil // without Pods the managers have no drainer
		w.actors = append(w.actors, poolProvider)
	}
}

// startsAgainAfter is how long a kubelet takes for that.
const startsAgainAfter = time.Second

// kubelets create the Nodes of instances that run. One whose Node is deleted starts again after a moment: until then nothing registers it.
func kubelets() actor {
	starts := map[types.NamespacedName]time.Time{} // by key of a Node that is there, or that was deleted
	return func(ctx context.Context, w *World) (all []due) {
		for _, i := range w.instances() {
			key := types.NamespacedName{Namespace: w.homes[tokenOf(i)].space, Name: i.Name}
			switch at, registered := starts[key]; {
			case w.nodeOn(i) != nil:
				starts[key] = time.Time{}
			case registered && at.IsZero():
				starts[key] = w.Now().Add(startsAgainAfter)
				fallthrough
			case i.State == cloud.Running && !w.health.neverJoins(i):
				all = append(all, due{at: starts[key], do: func() { w.joins(ctx, i) }})
			}
		}
		return all
	}
}

// joins creates the Node of an instance.
func (w *World) joins(ctx context.Context, i cloud.Instance) {
	if w.habits != nil && w.holderOf(i) == nil {
		w.habits.nodes[i.Name] = true // no Machine will ever have it
	}
	node := fake.Node(i.Name, i.ProviderID)
	w.reports(node, corev1.ConditionTrue)
	node.Status.NodeInfo.KubeletVersion = w.cloud.UserData(i.Token) // that of an instance of a pool
	w.placed(node, i)
	if w.narrow != nil && w.narrow.kind == "Node" && !w.calm && w.choices.pick(3) == 2 {
		metav1.SetMetaDataLabel(&node.ObjectMeta, elsewhereLabel, "")
	}
	w.note("kubelet", "create Node "+i.Name, textOf(w.homes[tokenOf(i)].store.Client().Create(ctx, node)))
}

// misses remembers the Node of a Machine that is gone, if the cache of the process that acts does not show it, or that of any process where
// none acts: a request that arrives late, or the garbage collector. A Machine with an infrastructure object has recorded no instance while
// that has not: the Node has its name. One that has recorded a Node, and has no provider ID, lost it to a person or a webhook. Others than
// the library collect such Nodes: the cloud controller manager, or a person, after an event of machineset/guard.
func (w *World) misses(m *unstructured.Unstructured) {
	id, actors := providerIDIn(m), []*process{w.acting}
	if w.acting == nil {
		actors = w.processes
	}
	for _, node := range w.Objects("Node") {
		in := w.clusterWith(node)
		late := sameID(providerIDIn(node), id) && (in.wasTroubled(m) || slices.ContainsFunc(actors, func(p *process) bool {
			return !slices.ContainsFunc(p.nodes(in).ByProviderID(id), func(n *corev1.Node) bool { return n.UID == node.GetUID() })
		}))
		alike := (w.provided != nil || w.isFreed(m)) && node.GetName() == m.GetName() // somebody may have replaced the Machine by an old one
		unnamed := id == "" && (alike || node.GetName() == textAt(m, "status", "nodeRef", "name"))
		if late || unnamed && in == w.clusterOf(m.GetNamespace()) {
			w.missed[types.NamespacedName{Namespace: in.space, Name: node.GetName()}] = true
		}
	}
}

// nodeRefused remembers a Node whose deletion was refused: a Machine gives that up after a time, and nothing repeats it.
func (w *World) nodeRefused(r Request) {
	if r.Verb == "delete" && r.Kind == "Node" {
		key := types.NamespacedName{Name: r.Name}
		if r.session != nil {
			key.Namespace = r.session.of.space
		}
		w.missed[key] = true
	}
}

// loops are the controllers of Kubernetes in the store, with one function for each: it looks at everything that is due.
func loops(_ context.Context, w *World) (all []due) {
	tasks := map[string][]fake.Task{}
	for _, task := range w.loops.Tasks() {
		if of := tasks[task.Loop]; len(of) == 0 || !task.Due.After(w.Now()) {
			tasks[task.Loop] = append(of, task)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		all = append(all, due{at: tasks[name][0].Due, do: func() {
			before := w.version
			for _, task := range tasks[name] {
				w.loops.Do(task)
			}
			if w.version != before {
				w.note(name, fmt.Sprintf("looks at %d objects", len(tasks[name])), "")
			}
		}})
	}
	return all
}

// network delivers requests whose sender has given up.
func network(_ context.Context, w *World) []due {
	if len(w.late) == 0 {
		return nil
	}
	return []due{{do: func() {
		first := w.late[0]
		w.late = w.late[1:]
		first()
	}}}
}
