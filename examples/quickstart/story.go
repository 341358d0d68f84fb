package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// story is the sequence of steps. One goroutine performs it: each step does what a user would do, then waits until a
// condition is true. It never waits for a fixed time.
type story struct {
	script  script
	world   *world
	picture *picture
	view    view
	start   time.Time
	act     string

	writes  []machineWrites // from created to Running
	rollout *rolloutSummary
}

var (
	errInterrupted = errors.New("interrupted")
	errBroken      = errors.New("the budget was broken")
)

// perform runs the whole story. Nothing is left when it returns.
func (s *story) perform(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	s.act = "the cluster and its controllers start"
	w, err := newWorld(ctx, s.script, o.log)
	if err != nil {
		return s.because(ctx, o, err)
	}
	defer w.stop()
	s.world = w
	for _, act := range []func(context.Context) error{s.machinesComeUp, s.workloadStarts, s.machineGoes, s.fleetRolls} {
		if err := act(ctx); err != nil {
			return s.because(ctx, o, err)
		}
	}
	return nil
}

// because distinguishes an interruption and a timeout from other errors.
func (s *story) because(ctx context.Context, o options, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return s.timedOut(o)
	case ctx.Err() != nil:
		return errInterrupted
	}
	return err
}

func (s *story) timedOut(o options) error {
	err := fmt.Errorf("gave up after %s while: %s", o.timeout, s.act)
	if l := s.picture.machines[s.script.victim]; l != nil && !l.deleting.IsZero() {
		return fmt.Errorf("%w; Machine %s says: %s", err, s.script.victim, oneLine(l.row.Message))
	}
	return fmt.Errorf("%w; -timeout gives it longer", err)
}

func (s *story) machinesComeUp(ctx context.Context) error {
	s.begin("%d Machines are created and come up, and a MachineDeployment of %d more", len(s.script.machines), fleetSize)
	if err := s.world.createFleet(ctx); err != nil {
		return err
	}
	for _, name := range s.script.machines {
		if err := s.world.createMachine(ctx, name); err != nil {
			return err
		}
	}
	err := s.until(ctx, func() bool {
		for _, name := range s.script.machines {
			if l := s.picture.machines[name]; l == nil || l.running.IsZero() {
				return false
			}
		}
		return s.fleetRunsAt(oldVersion)
	})
	s.writes = countWrites(s.world.store.Requests(), s.script.machines)
	return err
}

func (s *story) workloadStarts(ctx context.Context) error {
	s.begin("%d pods start on their Nodes, behind a PodDisruptionBudget with minAvailable %d", s.script.replicas, s.script.minAvailable)
	if err := s.world.createWorkload(ctx, s.script); err != nil {
		return err
	}
	return s.until(ctx, s.workloadReady)
}

// workloadReady reports whether every pod is ready and the budget's status counts them all.
func (s *story) workloadReady() bool {
	b := s.picture.budget
	return s.picture.ready() == s.script.replicas && b != nil && b.Status.ObservedGeneration == b.Generation &&
		int(b.Status.CurrentHealthy) == s.script.replicas
}

func (s *story) machineGoes(ctx context.Context) error {
	pods, _ := s.picture.podsOn(s.script.victim)
	s.begin("Machine %s is deleted; %d pods run on its Node", s.script.victim, len(pods))
	s.picture.promise.give(s.script.minAvailable, s.picture.ready())
	if err := s.world.deleteMachine(ctx, s.script.victim); err != nil {
		return err
	}
	if err := s.until(ctx, s.victimGone); err != nil {
		return err
	}
	s.begin("The replacements become ready on the other Nodes")
	return s.until(ctx, s.workloadReady)
}

// victimGone reports whether all objects of the deleted Machine are gone.
func (s *story) victimGone() bool {
	name := s.script.victim
	return !s.picture.machines[name].gone.IsZero() && !s.picture.nodes[name] &&
		!s.picture.parts[fake.InfraMachineGVK(contract.V1Beta2).Kind+"/"+name] &&
		!s.picture.parts[fake.BootstrapConfigGVK(contract.V1Beta2).Kind+"/"+name]
}

// begin announces a step.
func (s *story) begin(format string, args ...any) {
	s.act = fmt.Sprintf(format, args...)
	s.view.tell(event{Seconds: seconds(time.Since(s.start)), Kind: kindAct, Message: s.act})
}

// until applies changes until a condition is true, or cannot become true any more.
func (s *story) until(ctx context.Context, done func() bool) error {
	for {
		if err := s.trouble(); err != nil {
			return err
		}
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.world.failed:
			return err
		case c := <-s.world.changes:
			if e, worth := s.picture.apply(c, time.Now()); worth {
				s.view.tell(e)
			}
		case <-s.view.ticks():
			s.view.tick()
		}
	}
}

// trouble returns why the story cannot succeed.
func (s *story) trouble() error {
	if p := s.picture.promise; p.broken {
		return fmt.Errorf("%w: %d pods were ready, and PodDisruptionBudget %s demands %d", errBroken, p.fewest, budgetName(s.picture.budget),
			p.demand)
	}
	l := s.picture.machines[s.script.victim]
	if l == nil || l.deleting.IsZero() || !waitsFor(l.row.Message) {
		return nil
	}
	blocker, found := s.picture.hopeless(s.script.victim, s.script.replicas)
	if !found {
		return nil
	}
	return fmt.Errorf("the drain of Node %s can never finish: PodDisruptionBudget %s wants %d pods ready, and there are %d in all, "+
		"so none may ever leave; what to do: lower its minAvailable to at most %d, or run more replicas (-budget-min-available sets it here)",
		blocker.Node, blocker.Budgets[0], s.script.minAvailable, s.script.replicas, s.script.replicas-1)
}

func budgetName(b *policyv1.PodDisruptionBudget) string {
	if b == nil {
		return workload
	}
	return b.Namespace + "/" + b.Name
}
