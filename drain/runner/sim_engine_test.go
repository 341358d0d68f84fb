package runner_test

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// The simulation runs the real Runner, with its own goroutines and its REST evictor, inside a synctest bubble: time is the
// bubble's, so hours pass in milliseconds and nothing is polled. One goroutine, the test's, plays everything else: API
// server, controllers, kubelets, informers, the reconciler and the trouble. It acts only after synctest.Wait has shown that
// the Runner has nothing left to do, takes what the Runner did meanwhile in a sorted order, and is the only one that
// draws random numbers. So one seed is one run, whatever the scheduler does.

// sim is one run.
type sim struct {
	t       *testing.T // of the bubble
	rng     *rand.Rand
	trouble simTrouble
	agenda  simAgenda
	seq     int
	began   time.Time
	calm    bool // trouble has ended; every drain has to end too
	over    bool

	simCluster
	faults simFaults
	setup  simSetup
	proc   *simProcess // nil between a crash and the next start
	procs  int
	drains []*simDrain
	facts  simFacts

	broken []string // what must never happen and did
	trace  []string
	sum    uint64         // over the whole trace
	count  map[string]int // shows that a run was worth something

	mu        sync.Mutex // what the Runner's goroutines hand over
	signal    chan struct{}
	quit      chan struct{} // nothing is left in the bubble after it is closed, not even by a broken Runner
	arrivals  []*simRequest
	abandoned []*simRequest
}

// simulate runs one seed with the given kinds of trouble.
func simulate(t *testing.T, seed uint64, trouble simTrouble, change ...func(*simSetup)) *sim {
	t.Helper()
	s := &sim{rng: rand.New(rand.NewPCG(seed, 17)), trouble: trouble, count: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		s.signal, s.quit = make(chan struct{}, 1), make(chan struct{}) // channels belong to their bubble
		s.began = time.Now()
		s.t = t
		s.build(t)
		for _, f := range change {
			f(&s.setup)
		}
		s.start()
		s.planTrouble()
		s.loop()
		s.end()
	})
	return s
}

func (s *sim) loop() {
	for len(s.broken) == 0 && !s.over && len(s.agenda) > 0 {
		s.takeIn()
		next := s.agenda[0]
		if wait := time.Until(next.at); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-s.signal:
			}
			timer.Stop()
			synctest.Wait()
			continue
		}
		heap.Pop(&s.agenda)
		next.do()
		synctest.Wait()
	}
}

// takeIn books what the Runner did since the last look: requests that it gave up, requests that it sent, owners that it
// woke.
func (s *sim) takeIn() {
	s.mu.Lock()
	abandoned, arrivals := s.abandoned, s.arrivals
	s.abandoned, s.arrivals = nil, nil
	s.mu.Unlock()
	slices.SortFunc(abandoned, compareRequests)
	slices.SortFunc(arrivals, compareRequests)
	for _, q := range abandoned {
		s.answered(q, simAnswer{kind: answerUnknown, rest: time.Second})
	}
	for _, q := range arrivals {
		s.arrived(q)
	}
	if len(arrivals) > 0 {
		s.checkFairness(arrivals)
	}
	if s.proc != nil {
		s.proc.takeWakes()
		s.proc.openCaches()
	}
}

// notify tells the test's goroutine that there is something to take in.
func (s *sim) notify() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *sim) after(d time.Duration, do func()) { s.at(time.Now().Add(d), do) }

func (s *sim) at(when time.Time, do func()) {
	s.seq++
	heap.Push(&s.agenda, simEvent{at: when, seq: s.seq, do: do})
}

// upTo draws a duration below limit.
func (s *sim) upTo(limit time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(limit)))
}

// chance is true once in n times.
func (s *sim) chance(n int) bool { return s.rng.IntN(n) == 0 }

func (s *sim) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", s.sum, line)
	s.sum = h.Sum64()
	if len(s.trace) >= 400 {
		s.trace = append(s.trace[:0], s.trace[200:]...)
	}
	s.trace = append(s.trace, line)
}

func (s *sim) fail(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
	s.note("BROKEN: "+format, args...)
}

// simEvent is something that happens at a time; events of one time happen in the order they were planned.
type simEvent struct {
	at  time.Time
	seq int
	do  func()
}

type simAgenda []simEvent

func (a simAgenda) Len() int { return len(a) }
func (a simAgenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].seq < a[j].seq
}
func (a simAgenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *simAgenda) Push(x any)   { *a = append(*a, x.(simEvent)) }
func (a *simAgenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// simClock is the Runner's clock: the bubble's time, moved by jumps. Timers are not moved, as on a real machine.
type simClock struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *simClock) Now() time.Time                  { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *simClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *simClock) jump(d time.Duration) { c.offset.Add(int64(d)) }

// inOrder lists the keys of a map in an order that does not change from run to run.
func inOrder[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), compareNames)
}

func compareNames(a, b types.NamespacedName) int {
	switch {
	case a == b:
		return 0
	case a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.Name < b.Name:
		return -1
	default:
		return 1
	}
}
