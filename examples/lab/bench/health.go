package bench

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
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

// health measures a health check that replaces Machines of a set.
func health() kind {
	return kind{
		name: "health",
		about: `a MachineSet of --size Machines, whose MachineHealthCheck replaces a tenth of them, at Cluster API's client limits.

When all Machines are judged, the Nodes of a tenth of them, in three zones, are not Ready any more, half of them NotReady and half Unknown,
until others are Available in their place. Both have the same check (a timeout of 10s, a nodeStartupTimeout of 600s, a maxUnhealthy of
40%), 100 workers, and their other defaults; Cluster API's reconciles a check once in 15s at most. "replaced" begins when the Nodes fail, so
it contains how long it takes to notice; "work" begins with the first deletion. CPU is that of the replacement, and memory is the most that
the process has ever occupied.`,
		arms: managers(), cases: []string{""}, size: 300, max: 5000,
		columns: []measure.Column{
			{Figure: "requests/replaced"}, {Figure: "writes/replaced"}, {Figure: "judge-writes/machine"},
			{Figure: "replace cpu", Unit: "s"}, {Figure: "replace s", Unit: "s"}, {Figure: "replace work", Unit: "s"},
			{Figure: "memory", Unit: "MiB"},
		},
		flags: func(flags *flag.FlagSet, o *options) {
			flags.IntVar(&o.workers, "workers", 100, "--worker-count of ours")
		},
		plane:   func(_ options, o *cluster.Options) { o.ManagedNodes = livingNodes },
		prepare: prepareSets,
		one: func(ctx context.Context, l *lab, run *measure.Run) error {
			t := l.newTrial(run)
			owner := t.owner("MachineSet", t.name, "")
			n := int64(t.size)
			steps := append([]step{t.scaled("", n, owner...)}, append(t.healthSteps(), t.scaled("", 0, owner...))...)
			err := t.takeOwners(ctx, []string{"--machinehealthchecks", fmt.Sprintf("--worker-count=%d", t.workers)}, owner, steps...)
			f, bad := t.Figures, float64(t.bad())
			f["requests/replaced"], f["writes/replaced"] = (f["replace writes"]+f["replace reads"])/bad, f["replace writes"]/bad
			f["judge-writes/machine"] = f["judge writes"] / float64(n)
			return err
		},
	}
}

// bad is how many Machines go bad.
func (o options) bad() int { return max(1, o.size/10) }

// zoneOf is the zone of a Node.
func zoneOf(node string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(node))
	return fmt.Sprintf("zone-%d", sum.Sum32()%zones)
}

// healthSteps are a check of a complete set, whose Machines it judges, and Nodes that go bad, whose Machines are replaced.
func (t *trial) healthSteps() []step {
	check := fake.MachineHealthCheck(t.name, map[string]string{poolLabel: t.name}, unhealthyAfter,
		fake.WithField(clusterName, "spec", "clusterName"),
		fake.WithField(int64(startupSeconds), "spec", "checks", "nodeStartupTimeoutSeconds"),
		fake.WithField(maxUnhealthy, "spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo"))
	var gone map[types.UID]bool
	return []step{
		{
			name: "judge", do: func(ctx context.Context) error { return t.client.Create(ctx, check) },
			done: func(ctx context.Context) (bool, error) {
				return t.haveAll(ctx, contract.ConditionHealthCheckSucceeded, nil)
			},
		}, {
			name: "replace", do: func(ctx context.Context) error {
				machines, err := t.members(ctx, t.name)
				if err != nil {
					return err
				}
				var nodes []string
				nodes, gone = victims(machines, t.bad())
				return measure.InParallel(ctx, len(nodes), func(i int) error { return t.fail(ctx, nodes[i], i%2 == 0) })
			},
			done: func(ctx context.Context) (bool, error) { return t.haveAll(ctx, contract.ConditionAvailable, gone) },
		},
		t.remove(check),
	}
}

// haveAll reports whether the set is complete without some Machines, and all have a condition that is True.
func (t *trial) haveAll(ctx context.Context, condition string, without map[types.UID]bool) (bool, error) {
	machines, err := t.members(ctx, t.name)
	if err != nil || len(machines) != t.size {
		return false, err
	}
	for i := range machines {
		m := &machines[i]
		c, found, err := contract.ConditionsAt("status", "conditions").Find(m.Object, condition)
		if err != nil || !found || c.Status != metav1.ConditionTrue || without[m.GetUID()] || m.GetDeletionTimestamp() != nil {
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
