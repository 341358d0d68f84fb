package machineset_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
)

// killedAtATime is how many runs there are at a time: they mostly wait.
const killedAtATime = 8

var errKilled = errors.New("the process was killed")

// mortal is a process that dies at its nth write, before or after it is applied: none of its later requests is answered.
type mortal struct {
	agent   string
	killAt  int
	applied bool
	dead    chan struct{}

	mu    sync.Mutex
	count int
	died  bool
	last  fake.Request
}

// isLost is asked once for each request, so it counts too.
func (p *mortal) isLost(r fake.Request) bool {
	if r.UserAgent != p.agent {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.died || !r.IsWrite() || r.GVK.Kind == "Event" {
		return p.died
	}
	p.count++
	if p.count == p.killAt && !p.applied {
		p.die(r)
		return true
	}
	return false
}

// isLast has the answer to the last write get lost, which is applied.
func (p *mortal) isLast(r fake.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.UserAgent != p.agent || p.died || !r.IsWrite() || r.GVK.Kind == "Event" || p.count != p.killAt || !p.applied {
		return false
	}
	p.die(r)
	return true
}

func (p *mortal) die(r fake.Request) {
	p.died, p.last = true, r
	close(p.dead)
}

func (p *mortal) writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (w *world) runMortal(agent string, killAt int, applied bool) (*mortal, func()) {
	w.t.Helper()
	p := &mortal{agent: agent, killAt: killAt, applied: applied, dead: make(chan struct{})}
	w.Store.Inject(fake.Fault{Err: errKilled, Times: -1, Match: p.isLost})
	w.Store.Inject(fake.Fault{Err: errKilled, Lose: true, Times: 1, Match: p.isLast})
	mgr := w.Manager(agent, ctrl.Options{})
	_, err := machineset.SetupWithManager(w.t.Context(), mgr, w.kinds, machineset.Options{
		Options: pass.Options{StatusDelay: -1},
	})
	require.NoError(w.t, err)
	return p, w.Run(mgr)
}

// story is what happens to a set, whoever works on it.
func (w *world) story(set *unstructured.Unstructured, isDead func() bool, then func()) {
	for _, n := range []int{3, 1, 0} {
		switch fresh := w.Get(set); {
		case n == 3:
			w.Create(set)
		case n == 0:
			require.NoError(w.t, w.Client.Delete(w.t.Context(), fresh))
		default:
			w.scale(set, int64(n))
		}
		w.Eventually("the end of a chapter, or of the process", func() string {
			if isDead() || w.atEnd(set, n) {
				return ""
			}
			return w.describe(set)
		})
		if isDead() {
			then()
		}
		w.has(set, n)
	}
	w.Gone(set)
	w.oneForEachSlot()
}

func (w *world) atEnd(set *unstructured.Unstructured, n int) bool {
	fresh := w.Get(set)
	if fresh == nil || len(w.machines()) != n {
		return fresh == nil && n == 0
	}
	return testenv.Number(fresh, "status", "replicas") == int64(n)
}

// The process is killed right before and right after each of its writes, and a new one goes on. How many writes there are is counted
// in an undisturbed run.
func TestAProcessThatIsKilledAtAnyWriteIsContinuedToTheSameEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	first, _ := w.runMortal("first", 0, false)
	w.story(w.set("workers", 3), func() bool { return false }, func() {})
	writes := first.writes()
	t.Logf("%d writes", writes)
	require.Greater(t, writes, 12, "too few writes to be true: are they counted?")

	var runs sync.WaitGroup
	places := make(chan struct{}, killedAtATime)
	for _, applied := range []bool{false, true} {
		when := map[bool]string{false: "before", true: "after"}[applied]
		for k := 1; k <= writes; k++ {
			runs.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				t.Run(fmt.Sprintf("killed %s write %d", when, k), func(t *testing.T) { killed(t, k, applied) })
			})
		}
	}
	runs.Wait()
}

func killed(t *testing.T, k int, applied bool) {
	w := newWorld(t, fake.Options{}).live()
	p, stop := w.runMortal("first", k, applied)
	once := sync.OnceFunc(func() {
		stop()
		w.runMortal("second", 0, false)
	})
	w.story(w.set("workers", 3), func() bool {
		select {
		case <-p.dead:
			return true
		default:
			return false
		}
	}, once)
	t.Logf("killed at %s %s %s", p.last.Verb, p.last.GVK.Kind, p.last.Name)
}
