package simulation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// byKey are objects of one kind.
type byKey = map[types.NamespacedName]*unstructured.Unstructured

// pass is a pass of a process, and what was shown to it when it began.
type pass struct {
	process *process
	kind    string
	// version was that of the last write, and at the time of the process: a clock may jump during a pass.
	version string
	at      time.Time
	// shown is the object, nil without. machines and nodes are those that the caches had.
	shown           *unstructured.Unstructured
	machines, nodes byKey
	// closed: the gate of the process was. thawed is when the API server had answered again.
	closed bool
	thawed time.Time
}

// begins notes what is shown to a pass over a check or a set.
func (h *health) begins(p *process, q queued) {
	if h == nil {
		return
	}
	w, g := p.world, h.guards[p]
	g.pass = pass{
		process: p, kind: map[string]string{"machineset": "MachineSet", "machinehealthcheck": checkKind}[q.controller],
		version: w.version, at: p.clock().Now(), machines: maps.Clone(p.view.shown("Machine")), nodes: maps.Clone(p.view.nodes()),
		closed: g.isClosed(), thawed: g.gate.Of(types.NamespacedName{}).AnsweredAt,
	}
	if g.pass.kind != "" {
		g.pass.shown = p.view.shown(g.pass.kind)[q.key]
	}
}

// finds notes the Machines that a pass over their check was shown as well, when it has written to the check: it closes the places that they
// fill, and forgets them.
func (h *health) finds(b *pass) {
	for _, m := range b.machines {
		if selects(b.shown, m) && m.GetDeletionTimestamp() == nil && isReady(recordedNode(b.nodes, m)) &&
			statusOf(m, contract.ConditionOwnerRemediated) != "False" {
			h.found[[2]types.UID{b.shown.GetUID(), m.GetUID()}] = true
		}
	}
}

// shown are the objects of a kind of the operator that a cache has.
func (v *view) shown(kind string) byKey { return v.kinds[kindOf(kind).GroupKind()].objects }

func (v *view) nodes() byKey { return v.kinds[nodeKind()].objects }

// outageWithin is how far apart the Nodes of one outage stop being ready.
const outageWithin = 10 * time.Minute

// wentAtOnce reports whether all Machines of a check went at once, or those of one domain beside others. It finds the plain outages only:
// each Machine has a Node that stopped being ready within the window, and there is no other reason for any of them.
func wentAtOnce(check *unstructured.Unstructured, domain string, machines, nodes byKey) bool {
	var at []time.Time
	others := false
	for _, m := range machines {
		node := recordedNode(nodes, m)
		judged := readinessOf(node) != "" && !isExcused(m)
		switch {
		case !selects(check, m):
		case domain != "" && domainOf(m, node) != domain:
			others = others || judged
		case !judged || isReady(node):
			return false
		default:
			at = append(at, since(node, contract.ConditionReady))
		}
	}
	return len(at) >= 2 && (domain == "" || others) &&
		slices.MaxFunc(at, time.Time.Compare).Sub(slices.MinFunc(at, time.Time.Compare)) <= outageWithin
}

// domainOf is the failure domain of a Machine, or that of its Node, which may be nil.
func domainOf(m, node *unstructured.Unstructured) string {
	domain := textAt(m, "status", "failureDomain")
	if node != nil {
		domain = cmp.Or(domain, node.GetLabels()[corev1.LabelTopologyZone])
	}
	return domain
}

// place is that of a Machine which a check has marked at a time.
type place struct {
	machine, check types.UID
	at             time.Time
}

// observe takes a write.
func (h *health) observe(w *World, e Write) {
	kind := e.After.GetKind()
	switch {
	case h == nil || w.backups.restores && kind != checkKind:
		return
	case kind == checkKind:
		if w.acting != nil && h.guards[w.acting].pass.kind == checkKind && h.guards[w.acting].pass.shown != nil {
			h.finds(&h.guards[w.acting].pass)
		}
		h.observeCheck(e.After, w.backups.restores)
		return
	case kind == "Machine":
		h.observeMachine(w, e)
	case kind != "Node":
		return
	}
	for _, m := range w.Objects("Machine") {
		if isReady(recordedNode(w.objects["Node"], m)) {
			h.fill[m.GetUID()] = m
		}
	}
}

// observeMachine notes the place of a Machine that is marked, until the mark is taken away.
func (h *health) observeMachine(w *World, e Write) {
	uid := e.After.GetUID()
	if !e.Removed && statusOf(e.After, contract.ConditionOwnerRemediated) != "False" {
		h.places = slices.DeleteFunc(h.places, func(p place) bool { return p.machine == uid })
	} else if w.acting != nil && marks(e) && h.guards[w.acting].pass.shown != nil {
		h.places, h.fill[uid] = append(h.places, place{uid, h.guards[w.acting].pass.shown.GetUID(), w.Now()}), e.After
	}
}

// observeCheck notes what a ledger has; what one has that is restored counts beside the last one. A check that has lost its ledger does not
// find the places of Machines that go before its next pass.
func (h *health) observeCheck(check *unstructured.Unstructured, restored bool) {
	uid := check.GetUID()
	ledger, known := healthcheck.ParseLedger(check.GetAnnotations()[healthcheck.LedgerAnnotation], uid)
	switch {
	case !known:
		h.places = slices.DeleteFunc(h.places, func(p place) bool { return p.check == uid })
		return
	case restored:
		for _, last := range h.ledgers[uid].InFlight {
			is := func(entry healthcheck.Entry) bool { return entry.Machine == last.Machine }
			if !slices.ContainsFunc(ledger.InFlight, is) {
				ledger.InFlight = append(ledger.InFlight, last)
			}
		}
	}
	h.ledgers[uid] = ledger
}

// placeExpires is after which time a check forgets a place that stays empty.
const placeExpires = time.Hour

// open are the places of a check that no Machine fills: each Machine fills one that was empty before it was made, by the clocks. One
// that the check has found well fills it also when a person takes its labels away: what is in its place is there.
func (h *health) open(w *World, check *unstructured.Unstructured) (left []place) {
	free := slices.DeleteFunc(slices.Collect(maps.Values(h.fill)), func(m *unstructured.Unstructured) bool {
		return !selects(check, m) && !h.found[[2]types.UID{check.GetUID(), m.GetUID()}]
	})
	for _, p := range slices.Backward(h.places) { // the latest has the fewest Machines that can fill it
		skipped := slices.ContainsFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
			return m.GetUID() == p.machine && has(m, skip) // its mark is taken away, and in the same pass another one is marked
		})
		if skipped || p.check != check.GetUID() || w.Now().Sub(p.at) > placeExpires-skewSlack-2*w.far {
			continue
		}
		by := slices.IndexFunc(free, func(m *unstructured.Unstructured) bool {
			return m.GetCreationTimestamp().After(p.at.Add(-w.slack()))
		})
		if by >= 0 {
			free = slices.Delete(free, by, by+1)
		} else {
			left = append(left, p)
		}
	}
	return left
}
