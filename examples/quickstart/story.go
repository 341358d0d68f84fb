package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/fake"
)

// lookEvery is how often the story looks at the cluster.
const lookEvery = 50 * time.Millisecond

var (
	errTimeout = errors.New("gave up; -timeout gives it longer")
	errBroken  = errors.New("the budget was broken")
)

// story is the sequence of acts. One goroutine performs it: each act does what a user would do, then waits until a condition is true.
type story struct {
	options

	start   time.Time
	client  client.Client
	picture picture
	view    *command.Progress
	victim  *life // the Machine that is deleted
	fewest  int   // ready pods at a time since then
}

// act is a step, and when it is done.
type act struct {
	text string
	do   func(context.Context) error
	done func() bool
}

// perform runs the whole story. Nothing is left when it returns.
func (s *story) perform(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimeout)
	defer cancel()
	store := fake.NewStore(fake.Options{Seed: 1})
	s.client = store.Client()
	if err := s.create(kinds())(ctx); err != nil {
		return err
	}
	mgr, err := newManager(ctx, store)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { fail(mgr.Start(ctx)) })
	defer running.Wait()
	defer fail(nil)
	for _, act := range s.acts() {
		if err := s.play(ctx, act); err != nil {
			return fmt.Errorf("%s: %w", act.text, err)
		}
	}
	return nil
}

func (s *story) acts() []act {
	return []act{{
		text: fmt.Sprintf("A MachineDeployment of %d Machines is created, and they come up", machines),
		do:   s.create(fleetObjects()), done: s.runsAt(oldVersion),
	}, {
		text: fmt.Sprintf("%d pods start on their Nodes, behind a PodDisruptionBudget with minAvailable %d", pods, s.minAvailable),
		do:   s.create(workloadObjects(s.minAvailable)), done: s.picture.workloadReady,
	}, {
		text: "A Machine is deleted: its pods leave as the budget allows, and its set creates another one",
		do:   s.deleteMachine, done: func() bool { return s.victim.gone && s.runsAt(oldVersion)() },
	}, {
		text: fmt.Sprintf("The MachineDeployment goes from %s to %s, with at most one Machine more and none fewer", oldVersion, newVersion),
		do:   s.upgrade, done: s.runsAt(newVersion),
	}}
}

func (s *story) play(ctx context.Context, a act) error {
	s.picture.acts = append(s.picture.acts, span{a.text, s.picture.now, s.picture.now})
	s.line("== " + a.text)
	if err := a.do(ctx); err != nil {
		return err
	}
	return s.until(ctx, a.done)
}

// line prints a change.
func (s *story) line(text string) {
	s.view.Line(fmt.Sprintf("%5.1fs %s", s.picture.now.Seconds(), text))
}

func (s *story) create(objects []client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, obj := range objects {
			if err := s.client.Create(ctx, obj); err != nil {
				return fmt.Errorf("create %T %s: %w", obj, obj.GetName(), err)
			}
		}
		return nil
	}
}

func (s *story) deleteMachine(ctx context.Context) error {
	s.victim, s.fewest = s.picture.machines[0], pods
	return s.client.Delete(ctx, fake.Machine(s.victim.name))
}

func (s *story) upgrade(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"version":%q}}}}`, newVersion)
	return s.client.Patch(ctx, object(capi("MachineDeployment"), fleet), client.RawPatch(types.MergePatchType, patch))
}

// runsAt returns whether all Machines have a version and run, and all pods are ready if there are any.
func (s *story) runsAt(version string) func() bool {
	return func() bool {
		return s.picture.running(version) == machines && s.picture.running("") == machines &&
			(len(s.picture.pods) == 0 || s.picture.workloadReady())
	}
}

// until looks at the cluster until a condition is true, or cannot become true any more.
func (s *story) until(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		lines, err := s.picture.look(ctx, s.client, time.Since(s.start))
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		for _, text := range lines {
			s.line(text)
		}
		s.view.Show(s.picture.status())
		if err := s.trouble(); err != nil || done() {
			return err
		}
	}
}

// trouble returns why the story cannot succeed.
func (s *story) trouble() error {
	if s.victim == nil {
		return nil
	}
	s.fewest = min(s.fewest, s.picture.ready())
	switch {
	case s.minAvailable >= pods && s.picture.workloadReady() && s.victim.phase == blocked:
		return fmt.Errorf("the drain of Node %s can never finish: PodDisruptionBudget %s wants %d pods ready, and there are %d in all; "+
			"lower its minAvailable to at most %d", s.victim.node, workload, s.minAvailable, pods, pods-1)
	case s.minAvailable < pods && s.fewest < s.minAvailable:
		return fmt.Errorf("%w: %d pods were ready, and PodDisruptionBudget %s demands %d", errBroken, s.fewest, workload, s.minAvailable)
	}
	return nil
}

// summary returns the result as text.
func (s *story) summary(err error) string {
	if err != nil {
		return fmt.Sprintf("Failed after %.1f s.", s.picture.now.Seconds())
	}
	return fmt.Sprintf("Done after %.1f s.\n  %d Machines were replaced, and drains waited %.1f s for PodDisruptionBudget %s.\n"+
		"  The budget wants %d of %d pods ready; at least %d were.", s.picture.now.Seconds(), len(s.picture.machines)-machines,
		s.picture.waited.Seconds(), workload, s.minAvailable, pods, s.fewest)
}
