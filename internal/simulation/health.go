package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// CheckName is the name of the MachineHealthCheck.
const CheckName = "health"

const checkKind = "MachineHealthCheck"

// health is the health check of a history with its safety; a history without has none.
type health struct {
	domains []string
	// timeout is that of the conditions of Nodes, and startup that of Machines without a Node.
	timeout, startup time.Duration
	// least is the limit for the number of unhealthy Machines, nil without, and in the range, empty without.
	most    any
	in      string
	lame    map[string]bool      // by token: no kubelet starts on the instance. By name of the Node: its kubelet does not report
	awayTil time.Time            // the API server of the Machines does not answer before
	guards  map[*process]*guards // of the last start of each process
	watch   watch
}

// guards are what runs in one process beside its reconcilers.
type guards struct {
	gate *guard.Gate
	next time.Time // of the next probe
	pass passing   // that runs over a check or has run last
}

// limits are those that a person gives a check.
func limits() []any { return []any{nil, int64(1), "80%", int64(2), "[0-5]", "40%", "[1-2]"} }

// drawKinds decides whether a history has a health check, or templates from which sets clone, with or without providers of what they clone,
// or neither. The API server serves their kinds.
func (w *World) drawKinds() {
	switch w.choices.pick(3) {
	case 0:
	case 1:
		w.parts, w.kinds = true, append(partKinds(), w.kinds...)
		if w.choices.pick(2) == 1 {
			w.provided, w.kinds = newProvided(), append(configKinds(), w.kinds...)
		}
	default:
		w.health, w.kinds = drawHealth(w.choices), append(w.kinds, fake.ServedKind{GVK: kindOf(checkKind), Status: true})
	}
}

// drawHealth returns the health check of a history.
func drawHealth(choices *Choices) *health {
	pick := func(among ...time.Duration) time.Duration { return among[choices.pick(len(among))] }
	h := &health{
		timeout: pick(5*time.Minute, time.Minute, 8*time.Minute), startup: pick(10*time.Minute, 3*time.Minute),
		lame: map[string]bool{}, guards: map[*process]*guards{}, watch: newWatch(),
	}
	h.setLimit(limits()[choices.pick(len(limits()))])
	for i := range choices.pick(4) {
		h.domains = append(h.domains, fmt.Sprintf("zone-%d", i))
	}
	return h
}

func (h *health) setLimit(limit any) {
	h.most, h.in = limit, ""
	if text, is := limit.(string); is && text[0] == '[' {
		h.most, h.in = nil, text
	}
}

// zones are those in which instances are made.
func (h *health) zones() []string {
	if h == nil {
		return nil
	}
	return h.domains
}

// addCheck creates the health check.
func (w *World) addCheck(ctx context.Context) error {
	h := w.health
	if h == nil {
		return nil
	}
	check := fake.MachineHealthCheck(CheckName, map[string]string{"pool": RootName}, h.timeout, fake.WithField("c1", "spec", "clusterName"),
		fake.WithField(int64(h.startup/time.Second), "spec", "checks", "nodeStartupTimeoutSeconds"))
	if h.most != nil {
		fake.WithField(h.most, "spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo")(check)
	}
	if h.in != "" {
		fake.WithField(h.in, "spec", "remediation", "triggerIf", "unhealthyInRange")(check)
	}
	check.SetNamespace(namespace)
	return w.store.Client().Create(ctx, check)
}

// setUpHealth adds to the reconcilers of the library those of health checks and of the safety, as examples/manager does.
func setUpHealth(ctx context.Context, m Manager) ([]Reconciler, error) {
	w, p := m.process.world, m.process
	kinds, err := remediation.ClusterAPI(contract.V1Beta2)
	if err != nil {
		return nil, err
	}
	m.gate, err = guard.NewGate(guard.GateOptions{
		Clock: drainClock{WithTicker: w.clock, skewed: skewed{p}}, Management: func(context.Context) error { return w.probe(p, kinds.Machine) },
	})
	if err != nil {
		return nil, err
	}
	g := &guards{gate: m.gate, next: w.Now()}
	w.health.guards[p] = g
	all, err := setUpLibrary(m)
	if err != nil {
		return nil, err
	}
	checks, err := remediation.New(kinds, remediation.Ports{
		Ports: m.Ports, Workload: m.Workload, ReachOf: m.gate.Of,
	}, remediation.Options{Clock: m.Clock, Controller: m.Controller, Parallel: 1, Recorder: m.recorder(), Matching: matching()})
	if err != nil {
		return nil, err
	}
	freezer, err := freezerOf(m)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Reconcile = g.watched(p, all[i].Kind, all[i].Reconcile)
	}
	return append(all, Reconciler{checkKind, g.watched(p, checkKind, checks.Reconcile), checks.AddToManager},
		Reconciler{"MachineSet", freezer.Sets.Reconcile, nil}, Reconciler{"MachineDeployment", freezer.Deployments.Reconcile, nil},
	), errors.Join(checks.Index(ctx), freezer.Index(ctx))
}

func freezerOf(m Manager) (*guard.Freezer, error) {
	deployments := contract.Unstructured(kindOf("MachineDeployment"), contract.MachineDeploymentV1Beta2())
	sets := contract.Unstructured(kindOf("MachineSet"), contract.MachineSetV1Beta2())
	return guard.NewFreezer(guard.Kinds{
		Deployment: deployments, Set: sets, Machine: contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2()),
	}, m.Ports, guard.FreezerOptions{Clock: m.Clock})
}

// isClosed reports whether the API server has not answered, as far as the process knows.
func (g *guards) isClosed() bool {
	reach := g.gate.Of(types.NamespacedName{})
	return !reach.Answered || reach.IsFrozen()
}

type reconciling = func(context.Context, reconcile.Request) (reconcile.Result, error)

// watched tells the invariants when a pass begins and ends.
func (g *guards) watched(p *process, kind string, run reconciling) reconciling {
	return func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		outer := g.pass
		g.pass = p.world.passBegins(p, kind, r.NamespacedName)
		result, err := run(ctx, r)
		if err == nil && !p.crashed {
			p.world.health.watch.passEnds(p.world, &g.pass)
		}
		g.pass = outer
		return result, err
	}
}

// gates are the gates of the processes, which probe with or without a lease.
type gates struct{}

func (gates) can(ctx context.Context, w *World) []func() {
	var all []func()
	for _, p := range w.processes {
		if g := w.health.guards[p]; g != nil && !w.Now().Before(g.next) {
			all = append(all, func() {
				if g != w.health.guards[p] || w.Now().Before(g.next) {
					return
				}
				g.next = w.Now().Add(time.Second)
				g.next = w.Now().Add(g.gate.Probe(ctx))
				w.restart(ctx, p)
			})
		}
	}
	return all
}

func (gates) next(w *World) time.Time {
	var next time.Time
	for _, p := range w.processes {
		if g := w.health.guards[p]; g != nil && (next.IsZero() || g.next.Before(next)) {
			next = g.next
		}
	}
	return next
}

// probe asks the API server for anything.
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

// checkKey is the name of the health check.
func checkKey() types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: CheckName}
}

// slack is by how much the clocks of two processes may differ in the history.
func (w *World) slack() time.Duration {
	if w.has(Skew) {
		return skewSlack
	}
	return 2 * time.Second // of times in seconds
}

// timeoutOf is the shortest time for which a check lets a condition of a Node last; zero when it says none.
func timeoutOf(check *contract.HealthCheckState) time.Duration {
	var least time.Duration
	for _, rule := range check.NodeRules {
		least = cmp.Or(min(cmp.Or(least, rule.Timeout), rule.Timeout), least)
	}
	return least
}
