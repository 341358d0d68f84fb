package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// passing is one pass of a process, and what its caches showed when it began.
type passing struct {
	process *process
	kind    string
	// began is how many writes there were before it, and at the time of its process then: a clock may jump during a pass.
	began int
	at    time.Time
	// shown is the object as the cache had it, nil without. current: that was the last version; a pass that is behind its own writes does
	// nothing.
	shown   *unstructured.Unstructured
	current bool
	// paused: the check is. timeout is the shortest for which it lets a Node be unhealthy.
	paused  bool
	timeout time.Duration
	// down are the Machines whose Nodes were not ready at once, by failure domain; all Machines are the domain without a name.
	down map[string][]types.UID
	// well: a Machine is that the check judges. Without one, the check may take the outage of a domain for one of all Machines.
	well bool
	// silent are the Machines whose Nodes had not reported.
	silent map[types.UID]bool
	// frozen: the set is. closed: the gate of the process is.
	frozen, closed bool
	// thawed is when the API server has answered again.
	thawed time.Time
}

// watch is what the invariants about health checks remember.
type watch struct {
	writes  int
	changed map[types.UID]int // the write in which a Node appeared, or its readiness changed last
	places  []place
	well    map[types.UID]bool           // Machines that have had a Node which was ready
	gone    []*unstructured.Unstructured // of those, the Machines that are gone
	outages map[string]*outage
	lost    int    // the write in which the check has lost what it remembers, last
	without string // the version that the check had then, or that of its deletion
}

// place is a place that has no healthy Machine: that of one that was marked at a time.
type place struct {
	machine types.UID
	at      time.Time
}

// outage is one that a pass has seen, and when the first Machine of it had recovered: of any domain where it is everywhere. The check may
// have taken one that is everywhere for one of its domain all the same, and that has ended once a Machine there has recovered.
type outage struct {
	machines          []types.UID
	everywhere, there bool
	at, recovered     time.Time
	first             types.UID // the Machine that has recovered
}

func newWatch() watch {
	return watch{changed: map[types.UID]int{}, well: map[types.UID]bool{}, outages: map[string]*outage{}}
}

// forget is called when the check has lost what it remembers: what is marked is in flight still.
func (t *watch) forget(w *World) {
	t.lost, t.outages = t.writes, map[string]*outage{}
	if t.without = w.version; w.object(checkKind, namespace, CheckName) != nil {
		t.without = w.object(checkKind, namespace, CheckName).GetResourceVersion()
	}
	t.places = slices.DeleteFunc(t.places, func(p place) bool {
		return !slices.ContainsFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool { return m.GetUID() == p.machine })
	})
}

// remembers reports whether a version of the check is from before the last loss of what it remembers.
func (t *watch) remembers(check *unstructured.Unstructured) bool {
	order, err := resourceversion.CompareResourceVersion(check.GetResourceVersion(), t.without)
	return err == nil && order < 0
}

// sees takes a write.
func (h *health) sees(w *World, e Write) {
	if h == nil {
		return
	}
	t := &h.watch
	t.writes++
	switch kind := e.After.GetKind(); {
	case w.backups.restores:
		t.forget(w)
	case kind == "Node":
		if e.Before == nil || e.Removed || readinessOf(e.Before) != readinessOf(e.After) {
			t.changed[e.After.GetUID()] = t.writes
		}
		t.recovers(w)
	case kind == "Machine":
		t.ofMachine(w, e)
		t.recovers(w)
	}
}

func (t *watch) ofMachine(w *World, e Write) {
	uid := e.After.GetUID()
	if marks(w, e) {
		t.takesPlace(w, e.After)
		t.places = append(t.places, place{machine: uid, at: w.Now()})
	}
	if status, _, _ := conditionOf(e.After, contract.ConditionOwnerRemediated); status != "False" && !e.Removed {
		t.places = slices.DeleteFunc(t.places, func(p place) bool { return p.machine == uid })
	}
	if e.Removed && t.well[uid] {
		t.gone = append(t.gone, e.After)
	}
	if e.Removed || isExcused(e.After) {
		for domain, o := range t.outages {
			o.machines = slices.DeleteFunc(o.machines, func(m types.UID) bool { return m == uid })
			if o.first == uid && !o.endRecorded(w, domain) { // the check may never have seen it well
				o.recovered, o.first, o.there = time.Time{}, "", false
			}
		}
	}
}

// endRecorded reports whether the ledger of the check says that the outage of a domain has ended.
func (o *outage) endRecorded(w *World, domain string) bool {
	check := w.object(checkKind, namespace, CheckName)
	if check == nil {
		return false
	}
	ledger, _ := healthcheck.ParseLedger(check.GetAnnotations()[healthcheck.LedgerAnnotation], check.GetUID())
	return slices.ContainsFunc(ledger.Outages, func(e healthcheck.OutageEntry) bool {
		return e.Ended != 0 && (e.Domain == domain || o.everywhere && e.Domain == "")
	})
}

// takesPlace forgets the place that a Machine has which is marked, if it was made for one that is gone and never was well: it is no further
// one. Of several places it has the latest, as in inFlight.
func (t *watch) takesPlace(w *World, m *unstructured.Unstructured) {
	if t.well[m.GetUID()] {
		return
	}
	for at, p := range slices.Backward(t.places) {
		gone := !slices.ContainsFunc(w.Objects("Machine"), func(other *unstructured.Unstructured) bool { return other.GetUID() == p.machine })
		if gone && m.GetCreationTimestamp().After(p.at.Add(-w.slack())) {
			t.places = slices.Delete(t.places, at, at+1)
			return
		}
	}
}

// recovers remembers which Machines are well, and which outages that ends.
func (t *watch) recovers(w *World) {
	for _, m := range w.Objects("Machine") {
		if _, node := w.storedNode(m); node == nil || readinessOf(node) != string(corev1.ConditionTrue) {
			continue
		}
		t.well[m.GetUID()] = true
		if isExcused(m) {
			continue // the check does not see that it is well
		}
		for domain, o := range t.outages {
			there := domain == "" || domain == domainOf(m)
			if o.there = o.there || there; o.recovered.IsZero() && (o.everywhere || there) {
				o.recovered, o.first = w.Now(), m.GetUID()
			}
		}
	}
}

// What a check does after which time: it forgets a place that stays empty, and takes failures further apart for no outage.
const (
	placeExpires = 6 * time.Hour
	outageWithin = 10 * time.Minute
)

// inFlight is how many places have no Machine that is, or was, healthy: each Machine takes the place of one that was marked before it was
// made, as far as clocks say that. A check does not know the places that were there before it.
func (t *watch) inFlight(w *World, check time.Time) int {
	taken := map[types.UID]bool{}
	var left int
	for _, p := range slices.Backward(t.places) { // the latest has the fewest that can take it
		found := w.Now().Sub(p.at) > placeExpires-skewSlack || p.at.Before(check)
		for _, m := range slices.Concat(t.gone, w.Objects("Machine")) {
			uid := m.GetUID()
			if _, skipped := m.GetAnnotations()[skip]; skipped && uid == p.machine {
				found = true // its mark is taken away, in the pass that marks another one too
			}
			if found || taken[uid] || !t.well[uid] || uid == p.machine || !m.GetCreationTimestamp().After(p.at.Add(-w.slack())) {
				continue
			}
			found, taken[uid] = true, true
		}
		if !found {
			left++
		}
	}
	return left
}

// passBegins notes what the caches of a process show.
func (w *World) passBegins(p *process, kind string, key types.NamespacedName) passing {
	g := w.health.guards[p]
	b := passing{process: p, kind: kind, began: w.health.watch.writes, at: skewed{p}.Now(), closed: g.isClosed()}
	b.thawed = g.gate.Of(types.NamespacedName{}).ThawedAt
	shown := p.view.kinds[kindOf(kind).GroupKind()].objects[key]
	b.shown, b.current = shown, shown != nil && shown == w.object(kind, key.Namespace, key.Name)
	switch {
	case shown == nil:
	case kind == checkKind:
		b.paused, b.timeout = isPaused(shown), timeoutOf(checkState(shown))
		b.down, b.silent = down(p), map[types.UID]bool{}
		for _, m := range sorted(p.view.kinds[kindOf("Machine").GroupKind()].objects) {
			b.silent[m.GetUID()] = isSilent(p, m)
			node := shownNode(p, m)
			b.well = b.well || isOfRoot(m) && !isExcused(m) && node != nil && readyOf(node).Status == corev1.ConditionTrue
		}
	case kind == "MachineSet":
		b.frozen = isFrozen(shown)
	}
	return b
}

// passEnds remembers the outages that a pass over the check has seen and recorded.
func (t *watch) passEnds(w *World, b *passing) {
	if b.kind != checkKind || !b.current || b.closed || b.paused || t.lost > b.began {
		return
	}
	for domain, machines := range b.down {
		t.outages[domain] = &outage{machines: machines, at: w.Now(), everywhere: domain == "" || !b.well}
	}
}

// down are the Machines of the outages that a process knows of. It finds the plain ones only: all Machines of a domain, or all Machines,
// have Nodes that stopped being ready within the window of outages, and nothing else can be said of any.
func down(p *process) map[string][]types.UID {
	machines := map[string]*downMachines{"": {}}
	domains := 0
	for _, m := range sorted(p.view.kinds[kindOf("Machine").GroupKind()].objects) {
		if !isOfRoot(m) {
			continue
		}
		node, domain := shownNode(p, m), domainOf(m)
		if machines[domain] == nil {
			machines[domain] = &downMachines{}
		}
		odd := isExcused(m) || node == nil || readyOf(node).Status == "" || domain == "" && len(p.world.health.domains) > 0
		if !odd && domain != "" && len(machines[domain].all) == 0 {
			domains++
		}
		for _, of := range slices.Compact([]string{"", domain}) {
			machines[of].add(m, node, odd)
		}
	}
	return atOnce(machines, domains)
}

// atOnce returns the Machines of the domains that went at once; a domain says something only beside another one.
func atOnce(machines map[string]*downMachines, domains int) map[string][]types.UID {
	all := map[string][]types.UID{}
	for domain, d := range machines {
		if d.atOnce() && (domain == "" || domains >= 2) {
			all[domain] = d.all
		}
	}
	return all
}

// isOfRoot reports whether the check selects a Machine.
func isOfRoot(m *unstructured.Unstructured) bool {
	return m.GetNamespace() == namespace && m.GetLabels()["pool"] == RootName && m.GetLabels()[contract.ClusterNameLabel] != ""
}

// downMachines are those of one domain, and when the first and the last of their Nodes stopped being ready.
type downMachines struct {
	all         []types.UID
	first, last time.Time
	odd         bool // one of them is no part of an outage
}

func (d *downMachines) add(m *unstructured.Unstructured, node *corev1.Node, odd bool) {
	if odd {
		d.odd = true
		return
	}
	d.all = append(d.all, m.GetUID())
	d.odd = d.odd || readyOf(node).Status == corev1.ConditionTrue
	at := readyOf(node).LastTransitionTime.Time
	if d.first.IsZero() || at.Before(d.first) {
		d.first = at
	}
	if at.After(d.last) {
		d.last = at
	}
}

func (d *downMachines) atOnce() bool {
	return !d.odd && len(d.all) >= 2 && d.last.Sub(d.first) <= outageWithin
}

// isSilent reports whether the cache of a process shows a Node of a Machine that has not reported.
func isSilent(p *process, m *unstructured.Unstructured) bool {
	node := shownNode(p, m)
	return node != nil && readyOf(node).Status == ""
}

// isExcused reports whether a Machine does not count for an outage.
func isExcused(m *unstructured.Unstructured) bool {
	of := m.GetAnnotations()
	_, skipped := of[skip]
	_, asked := of[remediate]
	return skipped || asked || isPaused(m) || m.GetDeletionTimestamp() != nil
}

func isPaused(obj *unstructured.Unstructured) bool {
	_, paused := obj.GetAnnotations()[contract.PausedAnnotation]
	return paused
}

func domainOf(m *unstructured.Unstructured) string {
	domain, _, _ := unstructured.NestedString(m.Object, "status", "failureDomain")
	return domain
}

// shownNode is the Node of a Machine that the cache of a process has; nil where there is none, or a Machine does not name it.
func shownNode(p *process, m *unstructured.Unstructured) *corev1.Node {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	if node := (nodes{p.view}).ByName(name); node != nil && sameID(node.Spec.ProviderID, id) {
		return node
	}
	return nil
}

// storedNode is the recorded Node of a Machine as the API server has it, and its name.
func (w *World) storedNode(m *unstructured.Unstructured) (string, *unstructured.Unstructured) {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	node := w.object("Node", "", name)
	if node == nil {
		return name, nil
	}
	if has, _, _ := unstructured.NestedString(node.Object, "spec", "providerID"); !sameID(has, id) {
		return name, nil
	}
	return name, node
}

// readinessOf is the status of the condition Ready of a Node, empty without.
func readinessOf(node *unstructured.Unstructured) string {
	status, _, _ := conditionOf(node, string(corev1.NodeReady))
	return status
}

func checkState(obj *unstructured.Unstructured) *contract.HealthCheckState {
	state := &contract.HealthCheckState{}
	_ = contract.Unstructured(kindOf(checkKind), contract.HealthCheckV1Beta2()).Adapter.Read(obj, state) // the World has made it
	return state
}
