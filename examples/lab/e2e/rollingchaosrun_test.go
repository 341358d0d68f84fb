//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	// chaosWindow is how long disturbances begin.
	chaosWindow = 110 * time.Second
	// chaosLimit is more than a rollout takes after that on a busy machine.
	chaosLimit = 5 * time.Minute
	// connection is the target of faults of the connection to the Nodes.
	connection = "workload connection"
	// leader is the target of faults of the manager that leads when they begin.
	leader = "leading manager"
	// apps have chaosPods pods each, of which chaosAway may be away.
	apps, chaosPods, chaosAway = 4, chaotic / 4, 5
)

// chaosLanes are the targets. The control plane rests long enough that no Node is counted as lost. A manager that is frozen for longer than
// its Lease lasts, which is 15 seconds, comes back beside another one that leads, and goes on for ten seconds until it gives up.
func chaosLanes() []Lane {
	span := func(least, most float64) Span {
		return Span{Least: time.Duration(least * float64(time.Second)), Most: time.Duration(most * float64(time.Second))}
	}
	return []Lane{
		{Targets: []string{string(cluster.Etcd), string(cluster.APIServer)}, Rest: 12 * time.Second, Killed: span(0.2, 4),
			Frozen: span(1, 6)},
		{Targets: []string{leader}, Rest: 18 * time.Second, Killed: span(0.2, 4), Frozen: span(18, 24)},
		{Targets: []string{providerUser}, Rounds: 2, Rest: 5 * time.Second, Killed: span(0.2, 4), Frozen: span(1, 8)},
		{Targets: []string{connection}, Rounds: 2, Rest: 5 * time.Second, Killed: span(0.2, 6), Frozen: span(1, 8)},
	}
}

// target is something that faults happen to.
type target struct{ kill, start, freeze, thaw, restart func() error }

func (w *chaosWorld) target(ctx context.Context, name string) target {
	if name == connection {
		done := func(f func()) func() error { return func() error { f(); return nil } }
		return target{
			kill: done(w.link.Cut), start: done(w.link.Restore), freeze: done(w.link.Freeze), thaw: done(w.link.Restore),
			restart: done(w.link.Drop),
		}
	}
	if name == leader {
		name = w.leads()
	}
	if p := w.programs[name]; p != nil {
		return target{
			kill: func() error { p.Kill(); return nil }, start: p.Start, freeze: p.Freeze, thaw: p.Thaw,
			restart: func() error { return errors.Join(p.Stop(), p.Start()) },
		}
	}
	c := cluster.Component(name)
	restart := func() error {
		w.loses()
		return w.plane.Restart(ctx, c)
	}
	return target{
		kill: func() error {
			w.loses()
			return w.plane.Kill(c)
		},
		start: restart, restart: restart,
		freeze: func() error { return w.plane.Freeze(c) }, thaw: func() error { return w.plane.Thaw(c) },
	}
}

// leads is the user of the manager that has written the Lease last.
func (w *chaosWorld) leads() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, heard, err := w.plane.Audit().Next(w.heard)
	w.heard = heard
	for _, e := range events {
		if e.Resource == "leases" && e.Name == leaseOfManagers && e.Verb == "update" && e.Code < 300 {
			w.leading = e.User
		}
	}
	w.t.Logf("%s: %s leads, %v", time.Since(w.start).Round(100*time.Millisecond), w.leading, err)
	return w.leading
}

// loses notes that what is written now may be in no log.
func (w *chaosWorld) loses() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, time.Now())
}

// begin and end return what a kind of fault does.
func (t target) begin(kind Kind) func() error {
	return map[Kind]func() error{Killed: t.kill, Frozen: t.freeze, Restarted: t.restart}[kind]
}

func (t target) end(kind Kind) func() error {
	return map[Kind]func() error{Killed: t.start, Frozen: t.thaw, Restarted: func() error { return nil }}[kind]
}

// disturb carries a plan out, each target by itself. The channel has one error, or nil, when it is over.
func (w *chaosWorld) disturb(ctx context.Context, plan []Fault) <-chan error {
	begin := time.Now()
	of := map[string][]Fault{}
	for _, f := range plan {
		of[f.Target] = append(of[f.Target], f)
	}
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for _, faults := range of {
		all.Go(func() {
			for _, f := range faults {
				if err := w.carryOut(ctx, begin, f); err != nil {
					mu.Lock()
					errs = append(errs, fmt.Errorf("%s: %w", f, err))
					mu.Unlock()
					return
				}
			}
		})
	}
	w.t.Cleanup(all.Wait) // before anything is ended for good
	over := make(chan error, 1)
	go func() {
		all.Wait()
		over <- errors.Join(errs...)
	}()
	return over
}

func (w *chaosWorld) carryOut(ctx context.Context, begin time.Time, f Fault) error {
	if err := at(ctx, begin.Add(f.At)); err != nil {
		return err
	}
	w.t.Logf("%s: %s", time.Since(w.start).Round(100*time.Millisecond), f)
	on := w.target(ctx, f.Target)
	if err := on.begin(f.Kind)(); err != nil {
		return err
	}
	if err := at(ctx, time.Now().Add(f.For)); err != nil {
		return err
	}
	return on.end(f.Kind)()
}

// at waits for a time of the plan.
func at(ctx context.Context, when time.Time) error {
	timer := time.NewTimer(time.Until(when))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// goOn asks for the next version.
func (w *chaosWorld) goOn(ctx context.Context) error {
	next := fmt.Sprintf(`{"spec":{"template":{"spec":{"version":%q}}}}`, versionText(w.version+1))
	err := w.client.Patch(ctx, w.fleet.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(next)))
	if err == nil {
		w.version++
	}
	return err
}

// rollMeanwhile has a rollout under way until the plan is over: when one is done, the next one begins. It returns how many were done.
func (w *chaosWorld) rollMeanwhile(over <-chan error) (done int) {
	w.t.Helper()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-over:
			require.NoError(w.t, err)
			return done
		case <-ticker.C:
		}
		// Errors are those of the plan: the API server may be away.
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		if left, err := w.unfinished(ctx); err == nil && left == "" && w.goOn(ctx) == nil {
			done++
			w.t.Logf("%s: %s is next", time.Since(w.start).Round(100*time.Millisecond), versionText(w.version))
		}
		cancel()
	}
}

// finishes waits until the last rollout is done.
func (w *chaosWorld) finishes() {
	w.t.Helper()
	w.within(chaosLimit, "the rollout to "+versionText(w.version), func() string {
		left, err := w.unfinished(w.t.Context())
		if err != nil {
			return err.Error()
		}
		return left
	})
}

// guarded runs pods behind budgets, as many as Machines.
func (w *chaosWorld) guarded() {
	w.t.Helper()
	for i := range apps {
		labels := map[string]string{"app": fmt.Sprintf("guarded-%d", i)}
		selector, meta := &metav1.LabelSelector{MatchLabels: labels}, metav1.ObjectMeta{Namespace: "default", Name: labels["app"]}
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(chaosAway)), Selector: selector,
		}}
		deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(chaosPods)), Selector: selector,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}},
			}},
		}}
		require.NoError(w.t, w.client.Create(w.t.Context(), budget))
		require.NoError(w.t, w.client.Create(w.t.Context(), deployment))
	}
	w.eventually("the pods to run", w.podsMissing)
}

// podsMissing says which budget counts fewer healthy pods than there should be.
func (w *chaosWorld) podsMissing() string {
	w.t.Helper()
	var budgets policyv1.PodDisruptionBudgetList
	require.NoError(w.t, w.client.List(w.t.Context(), &budgets))
	for _, b := range budgets.Items {
		if b.Status.CurrentHealthy < chaosPods {
			return fmt.Sprintf("%s: %d of %d", b.Name, b.Status.CurrentHealthy, chaosPods)
		}
	}
	return ""
}

// Two hundred Machines roll behind budgets while each program that they need, and the connection to their Nodes, is killed, frozen and
// restarted at seeded times.
func TestE2EARollOutKeepsItsInvariantsInChaos(t *testing.T) {
	w := newChaosWorld(t)
	w.fleet = w.apply(chaosFleet(chaotic, chaoticSurge, chaoticUnavailable))[1]
	w.finishes()
	w.guarded()
	t.Logf("%d Machines and %d pods after %s", chaotic, apps*chaosPods, time.Since(w.start).Round(time.Second))
	require.NoError(t, w.goOn(t.Context()))
	plan := Plan(w.seed, chaosWindow, chaosLanes()...)
	done := w.rollMeanwhile(w.disturb(t.Context(), plan))
	t.Logf("the plan is over after %s, %d rollouts were done", time.Since(w.start).Round(time.Second), done)
	w.finishes()
	// A kubelet repeats what the API server could not answer. kwok forgets a Pod whose request was answered 500 or cut off, until it lists.
	require.NoError(t, w.plane.Restart(t.Context(), cluster.Kwok))
	t.Logf("all is well after %s", time.Since(w.start).Round(time.Second))
	w.ends()
	w.judge()
	w.keepsSecrets()
	for name, p := range w.programs {
		t.Logf("%s ended %d times by itself", name, p.Endings())
	}
	t.Logf("the end after %s", time.Since(w.start).Round(time.Second))
}
