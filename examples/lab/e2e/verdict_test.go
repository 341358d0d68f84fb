package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// said are the invariants that are broken, with what was said.
func said(t *testing.T, terms Terms, l *log) []string {
	t.Helper()
	broken, err := Judge(terms, l.events)
	require.NoError(t, err)
	var all []string
	for _, b := range broken {
		require.False(t, b.At.IsZero())
		require.Contains(t, Invariants(), b.Invariant)
		all = append(all, b.Invariant+": "+b.What)
	}
	return all
}

func TestARolloutThatKeepsItsBoundsBreaksNothing(t *testing.T) {
	t.Parallel()
	require.Empty(t, said(t, terms(), rolled()))
	count, err := Counted(terms(), rolled().events)
	require.NoError(t, err)
	want := Count{Machines: 4, Instances: 4, Pods: 3, Deletions: 1, Evictions: 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// broken are logs that break one invariant each.
func broken() map[string]struct {
	log  func(*log)
	want string
} {
	return map[string]struct {
		log  func(*log)
		want string
	}{
		"a slot is taken twice": {func(l *log) {
			l.deletes(4)
			l.releases(4)
			l.removes(4)
			m := aMachine(l, 5)
			m.Metadata.Annotations[scale.StampAnnotation] = "set/4"
			l.put(byManager, "create", "machines", "", *m)
		}, "there are never two Machines for one slot: fleet-4 and fleet-5 were made for the slot set/4"},
		"a second instance": {func(l *log) {
			second := aNode(l, 4)
			second.Metadata.Name, second.Metadata.UID = "fleet-node-4b", "node-4b"
			l.put(byProvider, "create", "nodes", "", *second)
		}, "a Machine never has two instances: fleet-4 has had the instances fleet-node-4 and fleet-node-4b"},
		"another provider ID": {func(l *log) {
			for _, id := range []string{"kwok://a", "kwok://b"} {
				m := aMachine(l, 4)
				m.Spec["providerID"] = id
				l.put(byManager, "patch", "machines", "", *m)
			}
		}, "a Machine never has two instances: fleet-4 had the provider ID kwok://a, and has kwok://b"},
		"a fourth Machine": {func(l *log) { l.creates(5) },
			"there are never more Machines than wanted and surge: fleet-5 is number 4, and there should never be more than 3"},
		"too few are available": {func(l *log) {
			l.deletes(2)
			l.deletes(3)
		}, "a rollout keeps as many Machines available as it says: fleet-3 is deleted, and 1 available Machines are left of at least 2"},
		"one was not available for long": {func(l *log) {
			l.put(byOther, "patch", "machines", "status", *aMachine(l, 2))
			for range 5 {
				l.write(byOther, "update", "leases", "", "other", nil)
			}
			l.deletes(3)
		}, "a rollout keeps as many Machines available as it says: fleet-3 is deleted, and 1 available Machines are left of at least 2"},
		"an instance that stays": {func(l *log) {
			l.deletes(4)
			l.removes(4)
		}, "a Machine goes only after its instance: fleet-4 is gone, and its instance fleet-node-4 is not"},
		"a pod is deleted": {func(l *log) {
			l.put(byManager, "delete", "pods", "", *leaves(aPod(l, 2)))
		}, "a Pod is deleted only after an eviction: pod-2 is deleted without an eviction"},
		"a pod of a Machine that stays": {func(l *log) { l.evicts(3) },
			"a Pod is evicted only from the Node of a Machine that is being deleted: pod-3 is evicted from Node fleet-node-3, " +
				"whose Machine fleet-3 stays"},
		"more than the budget allows": {func(l *log) {
			l.deletes(2)
			l.evicts(2)
			l.ends(2)
			l.releases(2)
			l.removes(2)
			l.creates(5)
			l.deletes(3)
			l.evicts(3)
		}, "no eviction leaves fewer healthy Pods than their budget wants: pod-3 is evicted, and 0 healthy pods of app are left of at least 1"},
		"a pod that is still there": {func(l *log) {
			l.deletes(2)
			l.evicts(2)
			l.releases(2)
		}, "an instance goes only after the drain of its Node: fleet-2 is deleted, and pod-2 is on its Node fleet-node-2"},
		"a pod that is not even evicted": {func(l *log) {
			l.deletes(2)
			l.releases(2)
		}, "an instance goes only after the drain of its Node: fleet-2 is deleted, and pod-2 is on its Node fleet-node-2"},
		"a pod that came long after the cordon, and long before": {func(l *log) {
			cordons(l, 4)
			l.write(byOther, "update", "leases", "", "other", nil)
			l.runs(5, 4)
			for range 4 {
				l.write(byOther, "update", "leases", "", "other", nil)
			}
			l.releases(4)
		}, "an instance goes only after the drain of its Node: fleet-4 is deleted, and pod-5 is on its Node fleet-node-4"},
		"a Node of another owner": {func(l *log) {
			l.put(byManager, "patch", "nodes", "", *l.object("other", "other"))
		}, "nothing of another owner is touched: manager: patch nodes other 200"},
		"a Machine of another owner": {func(l *log) {
			l.put(byManager, "delete", "machines", "", *l.object("other", "other"))
		}, "nothing of another owner is touched: manager: delete cluster.x-k8s.io/machines other 200"},
	}
}

func TestEachInvariantCanBreak(t *testing.T) {
	t.Parallel()
	var seen []string
	for name, tc := range broken() {
		l := rolled()
		tc.log(l)
		if diff := cmp.Diff([]string{tc.want}, said(t, terms(), l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, i := range Invariants() {
			if len(tc.want) > len(i) && tc.want[:len(i)] == i {
				seen = append(seen, i)
			}
		}
	}
	slices.Sort(seen)
	want := slices.Sorted(slices.Values(Invariants()))
	if diff := cmp.Diff(want, slices.Compact(seen)); diff != "" {
		t.Errorf("invariants that are broken here (-want +got):\n%s", diff)
	}
}

// What nobody could know when it was decided breaks nothing.
func TestWhatComesWithADeletionBreaksNothing(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]func(*log){
		"another Machine has just ceased to be available": func(l *log) {
			l.put(byOther, "patch", "machines", "status", *aMachine(l, 2))
			l.put(byOther, "patch", "machines", "status", *aMachine(l, 2))
			l.deletes(3)
		},
		"a pod is bound to the Node of an instance that is deleted": func(l *log) {
			l.put(byOther, "create", "pods", "", *aPod(l, 5))
			l.deletes(4)
			l.put(byManager, "delete", "kwokmachines", "", *leaves(anInfra(l, 4)))
			e := l.write(byOther, "create", "pods", "binding", "pod-5", gone(""))
			e.Sent = []byte(`{"target":{"name":"fleet-node-4"}}`)
		},
		"a pod is bound to a Node long after its cordon, just before the deletion of its instance": func(l *log) {
			cordons(l, 4)
			l.write(byOther, "update", "leases", "", "other", nil)
			l.runs(5, 4)
			l.put(byManager, "delete", "kwokmachines", "", *leaves(anInfra(l, 4)))
		},
	} {
		l := rolled()
		what(l)
		require.Empty(t, said(t, terms(), l), name)
	}
}

// cordons cordons the Node of a Machine that is being deleted.
func cordons(l *log, n int) {
	l.deletes(n)
	node := aNode(l, n)
	node.Spec["unschedulable"] = true
	l.put(byManager, "patch", "nodes", "", *node)
}

// without returns a log without one line.
func without(l *log, at int) *log {
	return &log{events: slices.Delete(slices.Clone(l.events), at, at+1), version: l.version}
}

// Every write may be lost when the API server is killed: its event is missing, and the programs go on as if it had been carried out, which
// it was.
func TestAWriteThatIsLostWithTheAPIServerBreaksNothing(t *testing.T) {
	t.Parallel()
	whole := rolled()
	for i, e := range whole.events {
		known := terms()
		known.Lost = []time.Time{e.Received}
		if all := said(t, known, without(whole, i)); len(all) > 0 {
			t.Errorf("without %s: %v", e, all)
		}
	}
}

// A write whose answer is a timeout may have been carried out.
func TestAWriteThatFailedWithATimeoutBreaksNothing(t *testing.T) {
	t.Parallel()
	for i := range rolled().events {
		l := rolled()
		e := &l.events[i]
		e.Code, e.Answer = 504, nil
		if all := said(t, terms(), l); len(all) > 0 {
			t.Errorf("%s: %v", e, all)
		}
	}
}

// A log with a hole that nothing explains is no proof: what it lacks is noticed.
func TestAnEventThatIsMissingWithoutALossIsNoticed(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"fleet-node-1 delete", "pod-1 delete", "fleet-3 patch"} {
		l := rolled()
		i := slices.IndexFunc(l.events, func(e cluster.AuditEvent) bool { return fmt.Sprint(e.Name, " ", e.Verb) == missing })
		require.GreaterOrEqual(t, i, 0)
		if all := said(t, terms(), without(l, i)); len(all) == 0 {
			t.Errorf("without %s, everything seems to be well", missing)
		}
	}
}

func TestRequestsThatWereRefusedChangeNothing(t *testing.T) {
	t.Parallel()
	l := rolled()
	e := l.write(byManager, "delete", "machines", "", "other", nil)
	e.Code = 404
	l.evicts(3)
	l.events[len(l.events)-1].Code = 429
	require.Empty(t, said(t, terms(), l))
}

// The API server answers so when two delete a pod without a grace period at the same time.
func TestADeleteThatAnotherOneOvertookChangesNothing(t *testing.T) {
	t.Parallel()
	for _, missing := range []bool{false, true} {
		l := rolled()
		i := slices.IndexFunc(l.events, func(e cluster.AuditEvent) bool { return fmt.Sprint(e.Name, " ", e.Verb) == "pod-1 delete" })
		require.GreaterOrEqual(t, i, 0)
		overtaken := l.events[i]
		answer := map[string]any{}
		require.NoError(t, json.Unmarshal(overtaken.Answer, &answer))
		delete(answer["metadata"].(map[string]any), "resourceVersion")
		var err error
		overtaken.Answer, err = json.Marshal(answer)
		require.NoError(t, err)
		l.events = slices.Insert(l.events, i+1, overtaken)
		if missing { // the answer is no proof that the pod is gone
			l.events = slices.Delete(l.events, i, i+1)
		}
		require.Equal(t, missing, len(said(t, terms(), l)) > 0)
	}
}

func TestALogThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	l := rolled()
	l.write(byManager, "patch", "machines", "", "fleet-1", "no object")
	_, err := Judge(terms(), l.events)
	require.ErrorContains(t, err, "read the answer to patch cluster.x-k8s.io/machines fleet-1 200")
	_, err = Counted(terms(), l.events)
	require.Error(t, err)
}
