package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Faults of histories with two workload clusters.
const (
	// ClusterAway: the API server of a workload cluster does not answer for minutes, and its watches show nothing.
	ClusterAway Fault = "cluster away"
	// KubeconfigExchanged: for minutes, the kubeconfig of the second cluster leads to the first one, or to one that has Nodes with the names
	// of its own.
	KubeconfigExchanged Fault = "kubeconfig exchanged"
)

func clusterDisturbances() []disturbance {
	return []disturbance{{ClusterAway, (*World).clusterFails}, {KubeconfigExchanged, (*World).kubeconfigIsExchanged}}
}

// workloadCluster is where Nodes are: those of the Machines of one namespace.
type workloadCluster struct {
	name, namespace string
	// space is the namespace under which a World keeps its Nodes, and the group of their kind in a cache: that of Nodes for the first cluster,
	// and the name of another one.
	space string
	store *fake.Store
	away  time.Time // until when its API server does not answer
	// exchanged is where its kubeconfig leads until a time; nil: to this cluster.
	exchanged *workloadCluster
	until     time.Time
}

// drawClusters makes the workload clusters: one, which is the management cluster too, or a second one for the Machines in another
// namespace, and a third one, to which only a kubeconfig may lead.
func (w *World) drawClusters() {
	w.clusters[0].store = w.store
	if !slices.ContainsFunc(w.owners, func(o *owner) bool { return o.namespace == elsewhere }) {
		w.hasNone(ClusterAway, KubeconfigExchanged)
		return
	}
	w.hasNone(UserRestoresElsewhere) // no kubeconfig is in that namespace
	for i, name := range []string{"c2", "c3"} {
		c := &workloadCluster{name: name, namespace: elsewhere, space: name}
		observe := func(obj *unstructured.Unstructured, removed bool) { w.stores(c, obj, removed) }
		c.store = fake.NewStore(fake.Options{Clock: w.clock, Seed: uint64(i + 1), OnEvent: observe, Admit: w.changes})
		w.clusters = append(w.clusters, c)
	}
	w.served = append(w.served, schema.GroupVersionKind{Group: "c2", Version: "v1", Kind: "Node"})
	w.actors = append(w.actors, links)
}

// isSplit reports whether there is a second workload cluster.
func (w *World) isSplit() bool { return len(w.clusters) > 1 }

// clusterOf returns the cluster of the Machines in a namespace.
func (w *World) clusterOf(namespace string) *workloadCluster {
	if w.isSplit() && namespace == elsewhere {
		return w.clusters[1]
	}
	return w.clusters[0]
}

// clusterWith returns the cluster that a Node is in; for any other object, the first one.
func (w *World) clusterWith(node client.Object) *workloadCluster {
	for _, c := range w.clusters[1:] {
		if is := w.object("Node", c.space, node.GetName()); is != nil && is.GetUID() == node.GetUID() {
			return c
		}
	}
	return w.clusters[0]
}

// clientOf returns a client of the cluster that an object is in.
func (w *World) clientOf(obj client.Object) client.Client { return w.clusterWith(obj).store.Client() }

// nodeOn returns the Node with the name of an instance, in its cluster; nil without.
func (w *World) nodeOn(i cloud.Instance) *unstructured.Unstructured {
	return w.object("Node", w.homes[tokenOf(i)].space, i.Name)
}

// podsOn returns the Pods on a Node: only the first cluster has some.
func (w *World) podsOn(node client.Object) []*unstructured.Unstructured {
	first := w.clusterWith(node) == w.clusters[0]
	return slices.DeleteFunc(w.Objects("Pod"), func(pod *unstructured.Unstructured) bool {
		return !first || textAt(pod, "spec", "nodeName") != node.GetName()
	})
}

// instances are those of the cloud, in order.
func (w *World) instances() (all []cloud.Instance) {
	for _, c := range w.clusters {
		some, _ := w.cloud.List(w.ctx, cloud.Request{Cluster: c.name})
		for _, i := range some {
			w.homes[tokenOf(i)] = c
		}
		all = append(all, some...)
	}
	return all
}

// isAway reports whether the API server of a cluster does not answer.
func (c *workloadCluster) isAway(w *World) bool { return !w.calm && w.Now().Before(c.away) }

// target is where the kubeconfig of a cluster leads.
func (c *workloadCluster) target() *workloadCluster { return cmp.Or(c.exchanged, c) }

// wasTroubled reports whether a cluster was away since a Machine has been deleted, or exchanged while the Machine did not have its UID: the
// deletion may have left the Node behind.
func (c *workloadCluster) wasTroubled(m *unstructured.Unstructured) bool {
	at := m.GetDeletionTimestamp()
	_, known := m.GetAnnotations()[cluster.UIDAnnotation]
	return at != nil && (at.Time.Before(c.away.Add(time.Minute)) || !known && at.Time.Before(c.until.Add(time.Minute)))
}

func (w *World) clusterFails(ctx context.Context) {
	c, d := oneOf(w, w.clusters[:2]...), oneOf(w, stalls()...)
	c.away = w.Now().Add(d)
	for _, p := range w.processes {
		for _, l := range p.links {
			if l.session.to == c {
				l.viewed().stalled = c.away
			}
		}
	}
	w.note("network", fmt.Sprintf("the API server of %s does not answer for %s", c.name, d), "")
	w.behind(ctx, d)
}

func (w *World) kubeconfigIsExchanged(ctx context.Context) {
	c, d := w.clusters[1], oneOf(w, stalls()...)
	if c.exchanged != nil {
		return
	}
	c.exchanged, c.until = w.clusters[2*w.choices.pick(2)], w.Now().Add(d)
	w.note("user", fmt.Sprintf("has the kubeconfig of %s lead to %s for %s", c.name, c.exchanged.name, d), "")
	for _, obj := range w.Objects("Node") {
		if w.clusterWith(obj) == c && c.exchanged == w.clusters[2] {
			node := fake.Node(obj.GetName(), "fake://of-c3/"+obj.GetName())
			w.reports(node, corev1.ConditionTrue)
			w.note("kubelet", "create Node "+node.Name+" in c3", textOf(c.exchanged.store.Client().Create(ctx, node)))
		}
	}
	w.behind(ctx, d)
}

// kubeconfigReturns ends that.
func (w *World) kubeconfigReturns(ctx context.Context, c *workloadCluster) {
	w.note("user", "has the kubeconfig of "+c.name+" lead to it again", "")
	c.exchanged = nil
	for _, node := range w.Objects("Node") {
		if w.clusterWith(node) == w.clusters[2] {
			w.collects(ctx, node)
		}
	}
}

// clusterInvariants are about what happens to Nodes and Machines while clusters are away or exchanged, and at all other times.
func clusterInvariants() []Invariant {
	return []Invariant{
		{Name: "a Node is written only in the cluster of its Machine", AfterWrite: ownCluster},
		{Name: "a Node is cordoned or deleted only with its Machine", AfterWrite: nodeStays},
		{Name: "nothing deletes a healthy Machine while nobody requests fewer or others", AfterWrite: healthyStays},
	}
}

func ownCluster(w *World, e Write) error {
	if e.After.GetKind() == "Node" && w.session != nil && w.session.of != e.cluster {
		return fmt.Errorf("%s writes the Node %s of %s for %s", w.acting.name, e.After.GetName(), e.cluster.name, w.session.of.name)
	}
	return nil
}

// nodeStays allows for a pass that began before a backup was restored. It does not hold where copies of Machines were
// restored into another namespace: one of these may be the only one that claims a Node.
func nodeStays(w *World, e Write) error {
	isCordoned := func(node *unstructured.Unstructured) bool { return textAt(node, "spec", "unschedulable") == "true" }
	if w.acting == nil || e.After.GetKind() != "Node" || e.Before == nil || !isDeletion(e) && (isCordoned(e.Before) || !isCordoned(e.After)) ||
		w.had(UserRestoresElsewhere) || w.restoredWithin(time.Minute) {
		return nil
	}
	for _, m := range w.Objects("Machine") {
		if sameID(providerIDIn(m), providerIDIn(e.After)) && m.GetDeletionTimestamp() == nil && !w.revived(w.acting, m) {
			return fmt.Errorf("the Node %s goes or is cordoned, and its Machine %s stays", e.After.GetName(), m.GetName())
		}
	}
	return nil
}

// healthyStays is about Machines whose owner and labels nobody has changed, of which nobody has deleted one, and that no check has marked.
func healthyStays(w *World, e Write) error {
	if w.acting == nil || w.ending || w.habits != nil || w.ownerOf(e.After) == nil || e.Before == nil || e.After.GetKind() != "Machine" ||
		!isDeletion(e) || isReplaced(w, e) {
		return nil
	}
	byHand := append(faultsOf(writerDisturbances()), UserDeletes, UserScales, UserDeletesSet, UserStrips, UserRestores, UserRollsOut,
		UserRollsBack, UserRollsOutAfter, UserChangesCluster, UserNamesNoTemplate, Autoscales)
	if !isReady(w.nodeOf(e.Before)) || w.had(byHand...) {
		return nil
	}
	return fmt.Errorf("%s is deleted, and its Node is ready", e.After.GetName())
}
