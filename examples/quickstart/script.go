package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// pace has the average durations.
type pace struct {
	stage                        time.Duration // one of: bootstrap data, infrastructure, the Node's arrival
	startPod, stopPod, readyNode time.Duration
	// status is how long an intermediate status of a Machine must last to be written: less than a stage, so that every phase
	// shows, and more than a Node takes to become ready, which is no stage.
	status time.Duration
	// sort is how long changes of several watches are held back to be sorted.
	sort time.Duration
}

// steady is slow enough for a person to see every phase.
func steady() pace {
	return pace{
		stage: 1300 * time.Millisecond, startPod: 1500 * time.Millisecond, stopPod: 700 * time.Millisecond,
		readyNode: 300 * time.Millisecond, status: 400 * time.Millisecond, sort: 20 * time.Millisecond,
	}
}

// script has the values that the seed determines. Objects of one Machine have the same name.
type script struct {
	seed                     uint64
	machines                 []string // sorted
	victim                   string   // the Machine that is deleted
	replicas                 int      // pods of the Deployment
	minAvailable             int      // of the budget
	bootstrap, infra, arrive map[string]time.Duration
	pace                     pace
}

// newScript computes a script from the options. It is a pure function.
func newScript(o options) script {
	rng := rand.New(rand.NewPCG(o.seed, 0x71756963))
	s := script{
		seed: o.seed, pace: o.pace,
		bootstrap: map[string]time.Duration{}, infra: map[string]time.Duration{}, arrive: map[string]time.Duration{},
	}
	for len(s.machines) < o.machines {
		if name := "demo-" + letters(rng, 5); !slices.Contains(s.machines, name) {
			s.machines = append(s.machines, name)
		}
	}
	slices.Sort(s.machines)
	for _, name := range s.machines {
		s.bootstrap[name] = around(rng, o.pace.stage)
		s.infra[name] = around(rng, o.pace.stage)
		s.arrive[name] = around(rng, o.pace.stage)
	}
	s.victim = s.machines[rng.IntN(len(s.machines))]
	s.replicas = 2*(o.machines+fleetSize) + rng.IntN(o.machines) // two or three pods on each Node
	s.minAvailable = o.minAvailable
	if o.minAvailable == automatic {
		s.minAvailable = s.replicas - 1
	}
	return s
}

// around returns a time that differs from d by at most 30 %.
func around(rng *rand.Rand, d time.Duration) time.Duration {
	return d*7/10 + time.Duration(rng.Float64()*0.6*float64(d))
}

// letters are those that Kubernetes uses for generated names: there are no vowels, so that no words result.
func letters(rng *rand.Rand, n int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	name := make([]byte, n)
	for i := range name {
		name[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(name)
}
