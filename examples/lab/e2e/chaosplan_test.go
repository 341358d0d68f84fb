package e2e_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what happens to a target.
type Kind string

// The kinds.
const (
	// Killed is SIGKILL, and a new start after a while; for a connection, it is refused for a while.
	Killed Kind = "killed"
	// Frozen is SIGSTOP, and SIGCONT after a while; for a connection, it is open and carries nothing for a while.
	Frozen Kind = "frozen"
	// Restarted is an end and a new start at once; for a connection, it is lost once.
	Restarted Kind = "restarted"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Killed, Frozen, Restarted} }

// Fault is one disturbance.
type Fault struct {
	// At is when it begins, counted from the begin of the plan, and For how long it lasts, which is zero for Restarted.
	At, For time.Duration
	Target  string
	Kind    Kind
}

// String returns the fault in one line, such as "1m2.5s etcd frozen for 4.2s".
func (f Fault) String() string {
	text := fmt.Sprintf("%s %s %s", f.At, f.Target, f.Kind)
	if f.For > 0 {
		text += fmt.Sprintf(" for %s", f.For)
	}
	return text
}

// Lane is a list of targets of which one is disturbed at a time. Lanes are independent of each other.
type Lane struct {
	Targets []string
	// Rounds is how often each kind happens to each target. Default 1.
	Rounds int
	// Rest is the least time between the end of a fault and the begin of the next one.
	Rest time.Duration
	// Killed and Frozen are the shortest and the longest time that a fault of that kind lasts.
	Killed, Frozen Span
}

// Span is a shortest and a longest time.
type Span struct{ Least, Most time.Duration }

// Plan returns the faults of all lanes by the time of their begin, within a window; a lane with too little time is over later. The same
// arguments give the same plan.
func Plan(seed uint64, window time.Duration, lanes ...Lane) []Fault {
	var all []Fault
	for i, lane := range lanes {
		all = append(all, lane.plan(rand.New(rand.NewPCG(seed, uint64(i))), window)...)
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return all
}

// step is the precision of all times, so that they are short to read.
const step = 100 * time.Millisecond

func (l Lane) plan(r *rand.Rand, window time.Duration) []Fault {
	var faults []Fault
	for range max(1, l.Rounds) {
		for _, target := range l.Targets {
			for _, kind := range Kinds() {
				faults = append(faults, Fault{Target: target, Kind: kind})
			}
		}
	}
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	free := window
	for i := range faults {
		faults[i].For = l.lasts(r, faults[i].Kind)
		free -= faults[i].For + l.Rest
	}
	// Pauses are what random points cut the free time into.
	points := make([]time.Duration, len(faults))
	for i := range points {
		points[i] = between(r, Span{Most: max(0, free)})
	}
	slices.Sort(points)
	busy := time.Duration(0)
	for i := range faults {
		faults[i].At = busy + points[i]
		busy += faults[i].For + l.Rest
	}
	return faults
}

func (l Lane) lasts(r *rand.Rand, kind Kind) time.Duration {
	switch kind {
	case Killed:
		return between(r, l.Killed)
	case Frozen:
		return between(r, l.Frozen)
	default:
		return 0
	}
}

func between(r *rand.Rand, s Span) time.Duration {
	return s.Least + step*time.Duration(r.Int64N(int64((s.Most-s.Least)/step)+1))
}
