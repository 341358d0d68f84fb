package bench

import (
	"context"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// owner is what controls the pods of a scenario.
type owner uint8

const (
	noOwner     owner = iota // the pods are created on their Nodes and never come back
	replicaSet               // the scheduler places what comes back on the spare Node
	statefulSet              // the same, and with the same names
)

// budget is the PodDisruptionBudget over all pods of a scenario.
type budget uint8

const (
	noBudget budget = iota
	oneAtATime
	// closedBudget demands as many healthy pods as there are, counts one more that never gets ready, and is opened by the script.
	closedBudget
)

// scenario is one situation in which arms are compared.
type scenario struct {
	number int
	title  string
	arms   []string
	// nodes are drained together; each has pods pods.
	nodes, pods int
	termination time.Duration // how long a pod takes to go
	readyAfter  time.Duration // how long a pod takes to get ready
	owner       owner
	budget      budget
	// script runs beside the drain; nil for none.
	script func(ctx context.Context, s *scene, round int) error
}

func scenarios() []scenario {
	const termination = 10 * time.Second
	pair := []string{arm.Ours, arm.Kubectl}
	return []scenario{
		{
			number: 1, title: "one Node of 100 pods, each of which takes 10 s to terminate", arms: drainArms(),
			nodes: 1, pods: 100, termination: termination,
		},
		{
			number: 2, title: "50 Nodes of 40 pods at once, 10 s to terminate", arms: pair,
			nodes: 50, pods: 40, termination: termination,
		},
		{
			number: 3, title: "20 pods behind maxUnavailable 1; replacements are ready after 1 s, pods terminate in 2 s", arms: pair,
			nodes: 1, pods: 20, termination: 2 * time.Second, readyAfter: time.Second, owner: replicaSet, budget: oneAtATime,
		},
		{
			number: 4, title: "a budget that stays closed for a good minute and then opens; 10 pods, 2 s to terminate",
			arms:  []string{arm.Ours, arm.Kubectl, arm.CAPI},
			nodes: 1, pods: 10, termination: 2 * time.Second, budget: closedBudget, script: openLater,
		},
		{
			number: 5, title: "half of a StatefulSet's 10 pods are deleted and created again elsewhere while a budget is closed", arms: pair,
			nodes: 1, pods: 10, termination: 2 * time.Second, owner: statefulSet, budget: closedBudget, script: recreateElsewhere,
		},
	}
}

// closedFor is how long the budget of scenario 4 stays closed. Rounds differ, and no time is a multiple of the 5 s or 20 s after
// which others look again: they must be neither always lucky nor always unlucky.
func closedFor(round int) time.Duration {
	times := []time.Duration{67500 * time.Millisecond, 72500 * time.Millisecond, 62500 * time.Millisecond}
	return times[round%len(times)]
}

func openLater(ctx context.Context, s *scene, round int) error {
	if err := measure.Sleep(ctx, closedFor(round)); err != nil {
		return err
	}
	return s.openBudget(ctx)
}

// recreateElsewhere deletes pods as a person or another controller may, which no budget stops. The StatefulSet creates them again under
// the same names, and the scheduler finds only the spare Node, because the drain has cordoned theirs.
func recreateElsewhere(ctx context.Context, s *scene, _ int) error {
	// Early enough for all of them to be back, after 2 s, before kubectl's first retry after 5 s.
	if err := measure.Sleep(ctx, time.Second); err != nil {
		return err
	}
	if err := s.deletePods(ctx, s.pods/2); err != nil {
		return err
	}
	if err := measure.Sleep(ctx, 7*time.Second); err != nil {
		return err
	}
	return s.openBudget(ctx)
}
