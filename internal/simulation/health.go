package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// CheckName is the name of each MachineHealthCheck.
const CheckName = "health"

const checkKind = "MachineHealthCheck"

// health are the health checks of a history with their safety; a history without has none.
type health struct {
	checks  []*check
	lame    map[string]bool      // by token: no kubelet starts on the instance. By name of the Node: its kubelet does not report
	awayTil time.Time            // the API server of the Machines does not answer before
	guards  map[*process]*guards // of the last start of each process

	ledgers map[types.UID]healthcheck.Ledger // by check, as they were stored last
	places  []place                          // in the order of their marks
	// fill are the Machines that can fill the place of another one, by when they were made: those that were ever well, or were marked.
	fill map[types.UID]*unstructured.Unstructured
	// found are pairs of a check and a Machine that was well when a pass over the check was shown it.
	found map[[2]types.UID]bool
}

// check is a health check as people want it.
type check struct {
	namespace string
	selector  map[string]string
	// limit is a number, a percentage or a range; nil without.
	limit any
	// timeout is that of the conditions of Nodes, and startup that of Machines without a Node.
	timeout, startup time.Duration
}

// guards are what runs in one process beside its reconcilers.
type guards struct {
	gate *guard.Gate
	next time.Time // of the next probe
	pass pass      // that runs over a check or a set, or has run last
}

// limits are those that people give a check.
func limits() []any { return []any{nil, int64(1), "80%", int64(2), "[0-5]", "40%", "[1-2]"} }

func timeouts() []time.Duration {
	return []time.Duration{5 * time.Minute, time.Minute, 8 * time.Minute}
}

// drawKinds decides whether a history has health checks, or templates from which sets clone, with or without providers of what they clone,
// or neither. The API server serves their kinds.
func (w *World) drawKinds() {
	switch w.choices.pick(3) {
	case 1:
		if w.parts = true; w.choices.pick(2) == 1 {
			w.provided = &provided{unheld: map[string]bool{}, machines: map[string]types.UID{}}
		}
		var first []fake.ServedKind
		for _, c := range w.cloned() {
			first = append(first, fake.ServedKind{GVK: templateOf(c.gvk), Status: true}, fake.ServedKind{GVK: c.gvk, Status: true})
		}
		w.kinds = append(first, w.kinds...)
	case 2:
		w.kinds = append(w.kinds, fake.ServedKind{GVK: kindOf(checkKind), Status: true})
		w.health = &health{
			lame: map[string]bool{}, guards: map[*process]*guards{},
			ledgers: map[types.UID]healthcheck.Ledger{}, fill: map[types.UID]*unstructured.Unstructured{}, found: map[[2]types.UID]bool{},
		}
		for i := range w.choices.pick(4) {
			w.zones = append(w.zones, fmt.Sprintf("zone-%d", i))
		}
	}
}

// addChecks creates the health checks: one for the first owner or for all Machines of its namespace, and now and then one of the same name
// in the other namespace.
func (w *World) addChecks(ctx context.Context) (err error) {
	if w.health == nil {
		return nil
	}
	for _, of := range []string{namespace, elsewhere}[:1+w.choices.pick(2)] {
		c := &check{
			namespace: of, selector: oneOf(w, map[string]string{"pool": RootName}, map[string]string{}),
			limit: oneOf(w, limits()...), timeout: oneOf(w, timeouts()...), startup: oneOf(w, 10*time.Minute, 3*time.Minute),
		}
		w.health.checks, err = append(w.health.checks, c), errors.Join(err, w.addCheck(ctx, c))
	}
	return err
}

func (w *World) addCheck(ctx context.Context, c *check) error {
	in, named := fake.InNamespace(c.namespace), fake.WithField("c1", "spec", "clusterName")
	err := w.store.Client().Create(ctx, fake.MachineHealthCheck(CheckName, c.selector, c.timeout, in, named))
	w.editCheck(ctx, c)
	return err
}

// editCheck gives a check the limit and the times that people want.
func (w *World) editCheck(ctx context.Context, c *check) {
	rules, _, _ := unstructured.NestedMap(fake.MachineHealthCheck("", nil, c.timeout).Object, "spec", "checks")
	rules["nodeStartupTimeoutSeconds"] = int64(c.startup / time.Second)
	spec := map[string]any{"checks": rules, "remediation": map[string]any{"triggerIf": c.triggers()}}
	if obj := w.object(checkKind, c.namespace, CheckName); obj != nil {
		w.patch(ctx, obj, jsonOf(map[string]any{"spec": spec}))
	}
}

// triggers are the fields of the limit.
func (c *check) triggers() map[string]any {
	if text, is := c.limit.(string); is && text[0] == '[' {
		return map[string]any{"unhealthyInRange": text, "unhealthyLessThanOrEqualTo": nil}
	}
	return map[string]any{"unhealthyInRange": nil, "unhealthyLessThanOrEqualTo": c.limit}
}

// mostIn is how many of a number of Machines a check may have in remediation. A percentage is rounded down, as Cluster API does.
func mostIn(check *unstructured.Unstructured, total int) int {
	limit, most := []string{"spec", "remediation", "triggerIf"}, 0
	if n, _ := fmt.Sscanf(textAt(check, append(limit, "unhealthyInRange")...), "[%d-%d]", new(int), &most); n == 2 {
		return most
	}
	value := intstr.Parse(textAt(check, append(limit, "unhealthyLessThanOrEqualTo")...))
	if most, err := intstr.GetScaledValueFromIntOrPercent(&value, total, false); err == nil {
		return most
	}
	return total
}

// timeoutIn is the shortest time for which one of some versions of a check lets a condition of a Node last.
func timeoutIn(versions []*unstructured.Unstructured) time.Duration {
	least := time.Hour
	for _, check := range versions {
		for _, rule := range mapsAt(check, "spec", "checks", "unhealthyNodeConditions") {
			seconds, _ := rule["timeoutSeconds"].(int64)
			least = min(least, time.Duration(seconds)*time.Second)
		}
	}
	return least
}

// selects reports whether a check selects a Machine.
func selects(check, m *unstructured.Unstructured) bool {
	return check.GetNamespace() == m.GetNamespace() && m.GetLabels()[contract.ClusterNameLabel] == textAt(check, "spec", "clusterName") &&
		hasLabels(check, m)
}

// hasLabels reports whether a Machine has all labels that the selector of an object names.
func hasLabels(obj, m *unstructured.Unstructured) bool {
	wanted, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "selector", "matchLabels")
	return labels.SelectorFromSet(wanted).Matches(labels.Set(m.GetLabels()))
}

// setUpHealth adds the reconcilers of the library, and beside them those of health checks and of the safety, as examples/manager does.
func (m *manager) setUpHealth(ctx context.Context) error {
	w, p := m.process.world, m.process
	kinds, unknown := contract.ClusterAPI(contract.V1Beta2)
	gate, err := guard.NewGate(guard.GateOptions{
		Clock: p.clock(), Management: func(context.Context) error { return w.probe(p, kinds.Machine) },
	})
	if err := errors.Join(unknown, err); err != nil {
		return err
	}
	w.health.guards[p] = &guards{gate: gate, next: w.Now(), pass: pass{process: p}}
	if err := m.setUp(ctx, gate); err != nil {
		return err
	}
	ports := remediation.Ports{Ports: engine.PortsFromManager(m), Workload: m.workload, ReachOf: gate.Of}
	ports.NodesOf, ports.WorkloadEvents = p.reach()
	checks, wrong := remediation.New(kinds, ports, remediation.Options{Options: m.shared(nil), Matching: matching()})
	if wrong != nil {
		return wrong
	}
	return checks.AddToManager(ctx, m)
}

// isClosed reports whether the API server has not answered, by the record of the process.
func (g *guards) isClosed() bool {
	return g.gate.Of(types.NamespacedName{}).Silent
}

// probeEach is how often a gate looks which servers are due. A Gate that runs does each second.
const probeEach = 30 * time.Second

// probes are those of the gates of the processes, with or without a lease.
func probes(ctx context.Context, w *World) (all []due) {
	for _, p := range w.processes {
		if g := w.health.guards[p]; g != nil {
			all = append(all, due{at: g.next, do: func() {
				if g != w.health.guards[p] || w.Now().Before(g.next) {
					return
				}
				g.next = w.Now().Add(time.Second)
				g.gate.Probe(ctx)
				g.next = w.Now().Add(probeEach)
				w.restart(ctx, p)
			}})
		}
	}
	return all
}

// probe makes any request to the API server.
func (w *World) probe(p *process, kind contract.Kind) error {
	return w.request(p, Request{Verb: "get", Kind: kind.GVK.Kind, Name: "machinist-probe", probe: true}, func() error {
		return guard.Answers(w.store.Client(), kind, namespace)(w.ctx)
	})
}

// away reports whether the API server does not answer a request.
func (h *health) away(w *World, r Request) bool {
	return h != nil && !r.Cloud && !w.calm && w.Now().Before(h.awayTil)
}

// neverJoins reports whether no kubelet starts on an instance.
func (h *health) neverJoins(i cloud.Instance) bool { return h != nil && h.lame[i.Token] }

// slack is by how much the clocks of two processes may differ in the history.
func (w *World) slack() time.Duration {
	if w.has(Skew) {
		return skewSlack
	}
	return 2 * time.Second // of times in seconds
}
