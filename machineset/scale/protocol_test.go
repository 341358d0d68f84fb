package scale_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// server is an API server that holds one set and its Machines, with every state that it ever had.
type server struct {
	version  int
	ledger   string
	written  int // the version at which the set was written last
	machines map[string]stored
	past     []snapshot
	machined map[int64]int // how many Machines were ever created for a slot
}

type stored struct {
	slot     int64
	deleting bool
}

type snapshot struct {
	version, written int
	ledger           string
	machines         map[string]stored
}

func newServer() *server {
	s := &server{machines: map[string]stored{}, machined: map[int64]int{}}
	s.commit(func() {})
	return s
}

func (s *server) commit(change func()) {
	s.version++
	change()
	s.past = append(s.past, snapshot{s.version, s.written, s.ledger, maps.Clone(s.machines)})
}

// process is one manager with caches of its own, which lag by as much as they like, the set's and the Machines' apart.
type process struct {
	set, machines int // indexes into past
	naming        scale.Naming
}

// pass is one pass of a set's reconciler, as the documentation of package scale has it. It may end anywhere, as if the process had died.
func (p *process) pass(s *server, desired int, dies func() bool) {
	set := s.past[p.set]
	ledger, next, victims := p.decide(s, set, s.past[p.machines], desired)
	writes := next.String() != ledger.String()
	// a patch with the resource version that was read, or a read that confirms it
	if (writes || len(next.Pending) > 0) && (dies() || s.written != set.written) {
		return
	}
	if writes {
		s.commit(func() { s.ledger, s.written = next.String(), s.version })
		set.written = s.written
	}
	if dies() {
		return
	}
	done := next
	for _, e := range next.Pending {
		done = p.create(s, done, e)
		if dies() {
			return
		}
	}
	if done.String() != next.String() && s.written == set.written {
		s.commit(func() { s.ledger, s.written = done.String(), s.version })
	}
	s.remove(victims, dies)
}

// remove deletes Machines, unless the process dies.
func (s *server) remove(victims []scale.Victim, dies func() bool) {
	for _, v := range victims {
		if m, found := s.machines[v.Name]; found && !m.deleting && string(v.UID) == v.Name {
			s.commit(func() { m.deleting = true; s.machines[v.Name] = m })
		}
		if dies() {
			return
		}
	}
}

// decide returns the ledger that was read, the one to write, and whom to delete.
func (p *process) decide(s *server, set, seen snapshot, desired int) (ledger, next scale.Ledger, victims []scale.Victim) {
	ledger = scale.NewLedger()
	if set.ledger != "" {
		ledger, _ = scale.ParseLedger(set.ledger)
	}
	var observed []scale.Machine
	shown := map[string]bool{}
	for name, m := range seen.machines {
		shown[name] = true
		observed = append(observed, scale.Machine{Name: name, UID: types.UID(name), Slot: m.slot, Deleting: m.deleting,
			Priority: scale.DefaultPriority})
	}
	settled := ledger.Settle(shown)
	d := scale.Plan(scale.Facts{Desired: contract.Some(desired), Machines: observed, Reserved: len(settled.Pending)})
	next = settled.Abandon(d.Abandon)
	if (d.Create > 0 || len(next.Pending) > 0) && !showsAll(s, seen) {
		return scale.Ledger{}, scale.Ledger{}, nil // wait
	}
	if d.Create > 0 {
		next, _ = next.Reserve(d.Create, p.naming, func(name string) bool { _, found := s.machines[name]; return found })
	}
	return ledger, next, d.Delete
}

func (p *process) create(s *server, ledger scale.Ledger, e scale.Entry) scale.Ledger {
	if _, exists := s.machines[e.Name]; !exists {
		s.commit(func() { s.machines[e.Name] = stored{slot: e.Slot} })
		s.machined[e.Slot]++
	}
	return ledger.Settle(map[string]bool{e.Name: true})
}

// showsAll reports whether a cache shows all Machines that a consistent list has.
func showsAll(s *server, seen snapshot) bool {
	for name := range s.machines {
		if _, found := seen.machines[name]; !found {
			return false
		}
	}
	return true
}

func (p *process) catchUp(s *server, random *rand.Rand) {
	now := len(s.past) - 1
	p.set += random.IntN(now - p.set + 1)
	p.machines += random.IntN(now - p.machines + 1)
}

// Two processes that both think that they lead, with caches that lag by any time, die anywhere.
func TestNoSlotEverGetsASecondMachine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(600) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s, n := newServer(), naming(t, "")
			if seed%3 == 0 {
				n = naming(t, "{{ .random }}")
			}
			processes := []*process{{naming: n}, {naming: n}}
			desired := 1 + random.IntN(6)
			dies := func() bool { return random.IntN(6) == 0 }
			for range 120 {
				if random.IntN(10) == 0 {
					desired = random.IntN(8)
				}
				p := processes[random.IntN(2)]
				p.catchUp(s, random)
				p.pass(s, desired, dies)
				finish(s, random)
				checkSlots(t, s)
			}
			for range 200 { // then one of them is left alone
				p := processes[0]
				p.set, p.machines = len(s.past)-1, len(s.past)-1
				p.pass(s, desired, func() bool { return false })
				finish(s, random)
			}
			checkSlots(t, s)
			active := slices.DeleteFunc(slices.Collect(maps.Values(s.machines)), func(m stored) bool { return m.deleting })
			require.Len(t, active, desired)
		})
	}
}

// finish ends some of the deletions.
func finish(s *server, random *rand.Rand) {
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		if s.machines[name].deleting && random.IntN(3) == 0 {
			s.commit(func() { delete(s.machines, name) })
		}
	}
}

func checkSlots(t *testing.T, s *server) {
	t.Helper()
	for slot, made := range s.machined {
		require.LessOrEqual(t, made, 1, "slot %d", slot)
	}
}
