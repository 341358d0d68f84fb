package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/fake"
)

const (
	// unhealthyAfter is for how long a Node may be not Ready.
	unhealthyAfter = 10 * time.Second
	// maxUnhealthy is far above the Machines that go bad.
	maxUnhealthy   = "40%"
	startupSeconds = 600
	zones          = 3
	// livingNodes selects the Nodes that kwok plays the kubelet of.
	livingNodes = "dead!=true"
)

// bad is how many Machines go bad.
func (o options) bad() int {
	if !o.health {
		return 0
	}
	return max(1, o.machines/10)
}

// nodeOf puts a Node into a zone.
func nodeOf(infra *unstructured.Unstructured, providerID string) *corev1.Node {
	node := fake.Node(infra.GetName(), providerID)
	node.Labels[corev1.LabelTopologyZone] = zoneOf(node.Name)
	return node
}

// zoneOf is the zone of a Node.
func zoneOf(node string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(node))
	return fmt.Sprintf("zone-%d", sum.Sum32()%zones)
}

// healthSteps are a check of a complete set, whose Machines it judges, and Nodes that go bad, whose Machines are replaced.
func (t *trial) healthSteps() []step {
	name := t.object.GetName()
	check := fake.MachineHealthCheck(name, map[string]string{"pool": name}, unhealthyAfter, fake.WithField(clusterName, "spec", "clusterName"),
		fake.WithField(int64(startupSeconds), "spec", "checks", "nodeStartupTimeoutSeconds"),
		fake.WithField(maxUnhealthy, "spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo"))
	var gone map[types.UID]bool
	return []step{
		{
			name: stepJudge, do: func(ctx context.Context) error { return t.client.Create(ctx, check) },
			done: func(ctx context.Context) (bool, error) {
				return t.haveAll(ctx, contract.ConditionHealthCheckSucceeded, nil)
			},
		}, {
			name: stepReplace, do: func(ctx context.Context) error {
				machines, err := t.members(ctx)
				if err != nil {
					return err
				}
				var nodes []string
				nodes, gone = victims(machines, t.bad())
				return bench.InParallel(ctx, len(nodes), func(i int) error { return t.fail(ctx, nodes[i], i%2 == 0) })
			},
			done: func(ctx context.Context) (bool, error) { return t.haveAll(ctx, contract.ConditionAvailable, gone) },
		}, {
			do:   func(ctx context.Context) error { return t.remove(ctx, check) },
			done: func(context.Context) (bool, error) { return true, nil },
		},
	}
}

// members are the Machines of the set, from the cache of the provider: it makes no request.
func (t *trial) members(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK().GroupVersion().WithKind("MachineList"))
	err := t.cached.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"pool": t.object.GetName()},
		client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// haveAll reports whether the set is complete without some Machines, and all have a condition that is True.
func (t *trial) haveAll(ctx context.Context, condition string, without map[types.UID]bool) (bool, error) {
	machines, err := t.members(ctx)
	if err != nil || len(machines) != t.machines {
		return false, err
	}
	for i := range machines {
		m := &machines[i]
		said, found, err := contract.ConditionsAt("status", "conditions").Find(m.Object, condition)
		if err != nil || !found || said.Status != metav1.ConditionTrue || without[m.GetUID()] || m.GetDeletionTimestamp() != nil {
			return false, err
		}
	}
	return true, nil
}

// victims chooses n Machines, as many in each zone as possible, and returns the names of their Nodes and their UIDs. machines are not
// changed.
func victims(machines []unstructured.Unstructured, n int) (nodes []string, uids map[types.UID]bool) {
	byZone := map[string][]string{}
	uidOf := map[string]types.UID{}
	for i := range machines {
		node, _, _ := unstructured.NestedString(machines[i].Object, "status", "nodeRef", "name")
		byZone[zoneOf(node)] = append(byZone[zoneOf(node)], node)
		uidOf[node] = machines[i].GetUID()
	}
	for _, of := range byZone {
		slices.SortFunc(of, strings.Compare)
	}
	uids = map[types.UID]bool{}
	for i := 0; len(nodes) < min(n, len(machines)); i++ {
		if of := byZone[fmt.Sprintf("zone-%d", i%zones)]; i/zones < len(of) {
			nodes = append(nodes, of[i/zones])
			uids[uidOf[of[i/zones]]] = true
		}
	}
	return nodes, uids
}

// fail makes a Node not Ready, or makes that unknown, as a kubelet or the node lifecycle controller does. kwok lets go of it first.
func (t *trial) fail(ctx context.Context, name string, unknown bool) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := t.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"dead":"true"}}}`))); err != nil {
		return err
	}
	base := node.DeepCopy()
	status := corev1.ConditionFalse
	if unknown {
		status = corev1.ConditionUnknown
	}
	fake.SetNodeCondition(node, corev1.NodeReady, status, time.Now())
	return t.client.Status().Patch(ctx, node, client.StrategicMergeFrom(base))
}
