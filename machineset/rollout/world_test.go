package rollout_test

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// kind is what a Machine is like.
type kind int

const (
	pending kind = iota
	available
	deleting
	marked // by others, and available
	minePending
	mineAvailable
	kinds
)

// world is a deployment with two sets, of which the second one is current. It is comparable: equal worlds have equal futures.
type world struct {
	desired int
	sets    [2]worldSet
}

type worldSet struct {
	exists   bool
	replicas int
	count    [kinds]int
}

func (s worldSet) size() int {
	n := 0
	for _, c := range s.count {
		n += c
	}
	return n
}

// names are made once, and so are Machines: tests read many worlds. There are some for three sets.
type names struct {
	sets     [3]string
	machines [3][kinds][16]string
	created  time.Time
	made     [3]map[[kinds]int][]rollout.Machine
}

func newNames() *names {
	n := &names{created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for s := range n.sets {
		n.made[s] = map[[kinds]int][]rollout.Machine{}
		n.sets[s] = fmt.Sprintf("ms%d", s+1)
		for k := range kinds {
			for i := range 16 {
				n.machines[s][k][i] = fmt.Sprintf("%d-%d-%02d", s, k, i)
			}
		}
	}
	return n
}

// key is a world in few bytes, for maps of many worlds.
type key [1 + 2*(2+kinds)]int8

func (w world) key() key {
	k := key{int8(w.desired)}
	at := 1
	for _, s := range w.sets {
		if s.exists {
			k[at] = 1
		}
		k[at+1] = int8(s.replicas)
		for i, c := range s.count {
			k[at+2+i] = int8(c)
		}
		at += 2 + int(kinds)
	}
	return k
}

// kindOf returns the set and kind of the Machine that facts gave a name.
func kindOf(name string) (int, kind) { return int(name[0] - '0'), kind(name[2] - '0') }

func (w world) facts(n *names, strategy rollout.Strategy) rollout.Facts {
	f := rollout.Facts{Desired: contract.Some(w.desired), Strategy: strategy}
	for i, s := range w.sets {
		if !s.exists {
			continue
		}
		f.Sets = append(f.Sets, n.setOf(i, s))
		f.Sets[len(f.Sets)-1].Matches = i == 1
	}
	return f
}

// setOf returns the set with an index, without the template of the deployment.
func (n *names) setOf(i int, s worldSet) rollout.Set {
	return rollout.Set{Name: n.sets[i], UID: types.UID(n.sets[i]), Created: n.created.Add(time.Duration(i) * time.Hour),
		Replicas: s.replicas, Revision: int64(i + 1), Machines: n.machinesOf(i, s)}
}

// machinesOf returns the Machines of a set. Those of equal sets are the same ones, which a plan does not change.
func (n *names) machinesOf(i int, s worldSet) []rollout.Machine {
	if all, found := n.made[i][s.count]; found {
		return all
	}
	all := make([]rollout.Machine, 0, s.size())
	for k, c := range s.count {
		for j := range c {
			name := n.machines[i][k][j]
			ok := kind(k) == available || kind(k) == marked || kind(k) == mineAvailable
			mine := kind(k) == minePending || kind(k) == mineAvailable
			all = append(all, rollout.Machine{Mine: mine, Machine: scale.Machine{Name: name, UID: types.UID(name),
				Created: n.created, Available: ok, Ready: ok, Deleting: kind(k) == deleting, Marked: mine || kind(k) == marked}})
		}
	}
	n.made[i][s.count] = all
	return all
}

// carryOut does what a reconciler does with a decision: marks, then replicas.
func (w world) carryOut(d rollout.Decision) world {
	for uid := range d.Unmark {
		s, k := kindOf(string(uid))
		w.sets[s].count[k]--
		w.sets[s].count[k-minePending]++
	}
	for _, c := range d.Replicas {
		for i := range w.sets {
			if int(c.Set[2]-'1') == i {
				w.sets[i].replicas = c.To
			}
		}
		for _, v := range c.Victims {
			if s, k := kindOf(v.Name); k < deleting {
				w.sets[s].count[k]--
				w.sets[s].count[k+minePending]++
			}
		}
	}
	if n, ok := d.Create.Get(); ok {
		w.sets[1] = worldSet{exists: true, replicas: n}
	}
	return w
}

// reconcileSet does what a set does: it creates what is missing, and deletes what is too much, marked Machines first.
func (w world) reconcileSet(i int) world {
	s := &w.sets[i]
	if missing := s.replicas - s.size(); missing > 0 {
		s.count[pending] += missing
	}
	for _, k := range []kind{minePending, mineAvailable, marked, pending, available} {
		for s.size()-s.count[deleting] > s.replicas && s.count[k] > 0 {
			s.count[k]--
			s.count[deleting]++
		}
	}
	return w
}

// happen lets one Machine, or all, become available or be gone; gone comes first if goneFirst. It returns the same world when nothing can.
func (w world) happen(all, goneFirst bool) world {
	for _, gone := range []bool{goneFirst, !goneFirst} {
		before := w
		for i := range w.sets {
			c := &w.sets[i].count
			switch {
			case gone && c[deleting] > 0:
				c[deleting]--
				if all {
					c[deleting] = 0
				}
			case !gone && c[pending] > 0:
				c[available]++
				c[pending]--
				if all {
					c[available], c[pending] = c[available]+c[pending], 0
				}
			default:
				continue
			}
			if !all {
				return w
			}
		}
		if !all && w != before {
			return w
		}
	}
	return w
}
