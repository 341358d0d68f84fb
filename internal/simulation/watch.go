package simulation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

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
	g.pass = pass{process: p, version: w.version, at: p.clock().Now(), closed: g.isClosed(), thawed: g.gate.Of(types.NamespacedName{}).ThawedAt}
	switch q.controller {
	case "machineset":
		g.pass.kind = "MachineSet"
	case "machinehealthcheck":
		g.pass.kind = checkKind
		g.pass.machines, g.pass.nodes = maps.Clone(p.view.shown("Machine")), maps.Clone(p.view.nodes())
	default:
		return
	}
	g.pass.shown = p.view.shown(g.pass.kind)[q.key]
}

// shown are the objects of a kind of the operator that a cache has.
func (v *view) shown(kind string) byKey { return v.kinds[kindOf(kind).GroupKind()].objects }

func (v *view) nodes() byKey { return v.kinds[nodeKind()].objects }

// isSame reports whether an object was there when the pass began, and was not changed since.
func (b *pass) isSame(obj *unstructured.Unstructured) bool {
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), b.version)
	return err == nil && order <= 0
}

// outageWithin is how far apart the Nodes of one outage stop being ready.
const outageWithin = 10 * time.Minute

// wentAtOnce reports whether all Machines of a check went at once, or those of one domain beside others. It finds the plain outages only:
// each Machine has a Node that stopped being ready within the window, and nothing else can be said of any of them.
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
		case !judged || readinessOf(node) == "True":
			return false
		default:
			at = append(at, since(node, string(corev1.NodeReady)))
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

// remediations are what the invariants remember of health checks.
type remediations struct {
	// decided are the Machines in remediation, by check, as a ledger that was stored had them last.
	decided map[types.UID]map[types.UID]bool
	places  []place // in the order of their marks
	// fill are the Machines that can fill the place of another one, by when they were made: those that were ever well, or were marked.
	fill map[types.UID]*unstructured.Unstructured
}

// place is that of a Machine which a check has marked at a time.
type place struct {
	machine, check types.UID
	at             time.Time
}

// sees takes a write.
func (h *health) sees(w *World, e Write) {
	switch {
	case h == nil:
		return
	case e.After.GetKind() == checkKind:
		h.seesCheck(e, w.backups.restores)
		return
	case w.backups.restores:
		return
	case e.After.GetKind() == "Machine":
		h.seesMachine(w, e)
	case e.After.GetKind() != "Node":
		return
	}
	for _, m := range w.Objects("Machine") {
		if readinessOf(recordedNode(w.objects["Node"], m)) == "True" {
			h.fill[m.GetUID()] = m
		}
	}
}

func (h *health) seesMachine(w *World, e Write) {
	uid := e.After.GetUID()
	if statusOf(e.After, contract.ConditionOwnerRemediated) != "False" && !e.Removed {
		h.places = slices.DeleteFunc(h.places, func(p place) bool { return p.machine == uid })
	}
	if w.acting == nil || !marks(e) {
		return
	}
	if by := h.guards[w.acting].pass.shown; by != nil {
		h.places, h.fill[uid] = append(h.places, place{uid, by.GetUID(), w.Now()}), e.After
	}
}

// seesCheck notes what a ledger has; one that is restored counts beside the last one. A check that has lost its ledger does not know the
// places of Machines that go before its next pass.
func (h *health) seesCheck(e Write, restored bool) {
	uid := e.After.GetUID()
	ledger, known := healthcheck.ParseLedger(e.After.GetAnnotations()[healthcheck.LedgerAnnotation], uid)
	if !known {
		h.places = slices.DeleteFunc(h.places, func(p place) bool { return p.check == uid })
		return
	}
	if !restored || h.decided[uid] == nil {
		h.decided[uid] = map[types.UID]bool{}
	}
	for _, entry := range ledger.InFlight {
		h.decided[uid][entry.Machine] = entry.Decided
	}
}

// placeExpires is after which time a check forgets a place that stays empty.
const placeExpires = 6 * time.Hour

// open are the places of a check that no Machine fills: each Machine fills one that was empty before it was made, as far as clocks say.
func (h *health) open(w *World, check *unstructured.Unstructured) []place {
	var left []place
	filled := map[types.UID]bool{}
	for _, p := range slices.Backward(h.places) { // the latest has the fewest Machines that can fill it
		if p.check != check.GetUID() || w.Now().Sub(p.at) > placeExpires-skewSlack-2*w.far || w.isSkipped(p.machine) {
			continue
		}
		before := len(filled)
		for uid, m := range h.fill {
			if len(filled) == before && selects(check, m) && m.GetCreationTimestamp().After(p.at.Add(-w.slack())) {
				filled[uid] = true
			}
		}
		if len(filled) == before {
			left = append(left, p)
		}
	}
	return left
}

// isSkipped reports whether a Machine is skipped: its mark is taken away, and in the same pass another one is marked.
func (w *World) isSkipped(uid types.UID) bool {
	return slices.ContainsFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool { return m.GetUID() == uid && has(m, skip) })
}
