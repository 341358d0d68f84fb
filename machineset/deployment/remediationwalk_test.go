package deployment

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// plot is a deployment whose rollouts and whose sets' remediations take place at the same time.
type plot struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	desired  int
	strategy rollout.Strategy
	template int
	sets     []*plotSet
	replaced int
}

type plotSet struct {
	name     string
	template int
	replicas int
	version  int
	limits   string
	record   scale.Replacements
	next     int64
	machines []plotMachine
}

type plotMachine struct {
	name                               string
	slot                               int64
	available, ailing, deleting, named bool // named: the deployment has marked it to go
}

// String shows the sets.
func (p *plot) String() string {
	var text strings.Builder
	for _, s := range p.sets {
		fmt.Fprintf(&text, "\n%+v", *s)
	}
	return text.String()
}

func (p *plot) available() (n int) {
	for _, s := range p.sets {
		for _, m := range s.machines {
			if m.available && !m.deleting {
				n++
			}
		}
	}
	return n
}

// read is what a pass of the deployment reads, and what it decides.
func (p *plot) read() (s *Scope, versions map[types.UID]int) {
	s, versions = &Scope{}, map[types.UID]int{}
	facts := rollout.Facts{Desired: contract.Some(p.desired), Strategy: p.strategy, Now: p.now}
	for i, one := range p.sets {
		state := &contract.MachineSetState{}
		state.Key.Name, state.UID, state.Replicas = one.name, types.UID(one.name), contract.Some(int32(one.replicas))
		state.Created = p.now.Add(time.Duration(i) * time.Second)
		is := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}, replaced: one.record.Names}
		if one.template != p.template {
			is.diff = []string{"template"}
		}
		for _, m := range one.machines {
			is.machines = append(is.machines, one.child(m))
		}
		s.observed, versions[state.UID] = append(s.observed, is), one.version
		f := is.facts(nil)
		for j := range f.Machines {
			f.Machines[j].Mine = f.Machines[j].Marked
		}
		facts.Sets = append(facts.Sets, f)
	}
	s.facts, s.plan, s.planned = facts, rollout.Plan(facts), true
	return s, versions
}

// child is a Machine as a reconciler reads it.
func (s *plotSet) child(m plotMachine) machine {
	state := &contract.MachineState{}
	state.Key.Name, state.UID = m.name, types.UID(m.name)
	state.Annotations = scale.Stamp{Set: types.UID(s.name), Slot: m.slot}.Annotations()
	say := func(kind string, is bool) {
		status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[is]
		state.Conditions = append(state.Conditions, metav1.Condition{Type: kind, Status: status})
	}
	say(contract.ConditionAvailable, m.available)
	say(contract.ConditionReady, m.available)
	if m.ailing {
		say(contract.ConditionHealthCheckSucceeded, false)
		say(contract.ConditionOwnerRemediated, false)
	}
	if m.deleting {
		state.Deleting = time.Unix(1, 0)
	}
	if m.named {
		state.Annotations[scale.DeleteAnnotation] = ownMark
	}
	return machine{State: state, Metadata: &state.Metadata}
}

func (p *plot) setBy(uid types.UID) *plotSet {
	return p.sets[slices.IndexFunc(p.sets, func(s *plotSet) bool { return types.UID(s.name) == uid })]
}

// roll is a pass of the deployment. Between its reads and its writes, sets may act.
func (p *plot) roll() {
	s, versions := p.read()
	for p.rng.IntN(2) == 0 {
		p.act()
	}
	wrote := false
	for uid := range versions {
		if one, want := p.setBy(uid), s.limits(uid).String(); one.limits != want {
			one.limits, wrote = want, true
			one.version++
		}
	}
	if wrote {
		return // its caches are behind
	}
	for _, one := range p.sets {
		for i := range one.machines {
			stays := s.plan.Unmark[types.UID(one.machines[i].name)]
			one.machines[i].named = one.machines[i].named && !stays
		}
	}
	for _, c := range s.plan.Replicas {
		one := p.setBy(c.UID)
		for i := range one.machines {
			goes := slices.ContainsFunc(c.Victims, func(v scale.Victim) bool { return v.Name == one.machines[i].name })
			one.machines[i].named = one.machines[i].named || goes
		}
		if one.version == versions[c.UID] {
			one.replicas = c.To
			one.version++
		}
	}
	if n, creates := s.plan.Create.Get(); creates && !slices.ContainsFunc(p.sets, func(s *plotSet) bool { return s.template == p.template }) {
		name := fmt.Sprintf("set%d", len(p.sets))
		p.sets = append(p.sets, &plotSet{name: name, template: p.template, replicas: n, next: 1, limits: s.limits("").String()})
	}
}

// act is a pass of one set.
func (p *plot) act() {
	s := p.sets[p.rng.IntN(len(p.sets))]
	for len(s.machines) < s.replicas {
		s.machines = append(s.machines, plotMachine{name: fmt.Sprintf("%s-%d", s.name, s.next), slot: s.next})
		s.next++
		s.version++ // the ledger was written before
	}
	alive := slices.DeleteFunc(slices.Clone(s.machines), func(m plotMachine) bool { return m.deleting })
	slices.SortFunc(alive, func(a, b plotMachine) int {
		return cmp.Or(scale.TrueFirst(a.named, b.named), scale.TrueFirst(a.ailing, b.ailing), scale.TrueFirst(!a.available, !b.available))
	})
	for _, m := range alive[:max(len(alive)-s.replicas, 0)] {
		p.remove(s, m.name)
	}
	limits, err := scale.LimitsOf(&contract.Metadata{Annotations: map[string]string{scale.LimitsAnnotation: s.limits}}, true)
	require.NoError(p.t, err)
	record := s.record
	record.From, record.Count = 0, 0 // without a back-off
	facts := scale.RemediationFacts{Next: s.next, Replacements: record, Limits: limits, Now: p.now,
		MinAvailable: contract.Some(s.replicas - limits.MaxUnavailable)}
	for _, m := range s.machines {
		facts.Machines = append(facts.Machines, scale.Of(s.child(m).State, types.UID(s.name)))
	}
	d := scale.Remediate(facts)
	if !reflect.DeepEqual(d.Replacements, s.record) {
		s.record = d.Replacements
		s.version++
	}
	if p.rng.IntN(6) == 0 {
		return // the process is stopped
	}
	for _, v := range d.Delete {
		p.remove(s, v.Name)
		p.replaced++
	}
}

// remove deletes a Machine. Enough others have to stay available, unless the set has more than the deployment wants.
func (p *plot) remove(s *plotSet, name string) {
	m := &s.machines[slices.IndexFunc(s.machines, func(m plotMachine) bool { return m.name == name })]
	before := p.available()
	m.deleting = true
	require.True(p.t, p.available() == before || p.available() >= p.desired-p.strategy.MaxUnavailable,
		"%s goes, and %d of %d stay available with %+v: %s", name, p.available(), p.desired, p.strategy, p)
}

// happen lets something happen to a Machine, or to the template. No Machine becomes unavailable by itself: that may break every bound.
func (p *plot) happen() {
	p.now = p.now.Add(time.Second)
	s := p.sets[p.rng.IntN(len(p.sets))]
	if p.rng.IntN(40) == 0 {
		p.template++
	}
	if len(s.machines) == 0 {
		return
	}
	at := p.rng.IntN(len(s.machines))
	switch m := &s.machines[at]; p.rng.IntN(8) {
	case 0:
		m.ailing = true
	case 1:
		m.ailing = false
	default:
		if m.deleting {
			s.machines = slices.Delete(s.machines, at, at+1)
			return
		}
		m.available = m.available || !m.ailing && !m.named // one that becomes available after it was chosen does not count
	}
}

func TestRolloutsAndRemediationsTogetherKeepEnoughMachinesAvailable(t *testing.T) {
	t.Parallel()
	replaced := 0
	for seed := range uint64(1500) {
		desired := 1 + int(seed%6)
		p := &plot{t: t, rng: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1000, 0), desired: desired,
			strategy: rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: int(seed/7) % 3, MaxUnavailable: int(seed/21) % 3}}
		if p.strategy.MaxSurge+p.strategy.MaxUnavailable == 0 {
			continue
		}
		p.sets = []*plotSet{{name: "set0", replicas: desired, next: 1, limits: scale.RemediationLimits{}.String()}}
		for range 200 {
			switch p.rng.IntN(4) {
			case 0:
				p.roll()
			case 1:
				p.act()
			default:
				p.happen()
			}
		}
		replaced += p.replaced
	}
	require.Greater(t, replaced, 1000)
}
