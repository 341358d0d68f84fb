package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// trio are the three sets of a deployment whose template has changed during a rollout. The last one is current.
type trio [3]worldSet

func (sets trio) facts(n *names, desired int, strategy rollout.Strategy) rollout.Facts {
	f := rollout.Facts{Desired: contract.Some(desired), Strategy: strategy}
	for i, s := range sets {
		f.Sets = append(f.Sets, n.setOf(i, s))
	}
	f.Sets[2].Matches = true
	return f
}

// eachTrio calls do with every multiset of up to four Machines of three sets, with replicas as eachWorld has them.
func eachTrio(do func(trio)) {
	const all = 4
	of := []kind{available, deleting, marked}
	eachCount(all, of, func(first worldSet, used int) {
		eachCount(all-used, of, func(second worldSet, more int) {
			eachCount(all-used-more, of, func(third worldSet, _ int) {
				for variant := range 27 {
					sets := trio{first, second, third}
					if sets[0].vary(variant%3) && sets[1].vary(variant/3%3) && sets[2].vary(variant/9) {
						do(sets)
					}
				}
			})
		})
	})
}

// scaled is how many replicas the sets of a paused deployment, or of a frozen one, are to have in all.
func (sets trio) scaled(desired, surge int, frozen bool) int {
	used, total, exist, wanted := 0, 0, 0, 0
	for _, s := range sets {
		total, exist = total+s.replicas, exist+max(s.replicas, s.size())
		if s.replicas > 0 {
			used++
			going := max(s.size()-s.count[deleting]-s.replicas, 0) // because of an earlier plan
			wanted += max(s.count[marked]-going, 0)
		}
	}
	switch {
	case total < desired && frozen:
		return total
	case total < desired:
		return total + max(min(desired-total, desired+surge-exist), 0)
	case used > 1 && desired > 0:
		return total - max(total-desired-surge, min(wanted, total-desired))
	}
	return desired
}

func TestThreeSetsKeepTheBoundsOfARollout(t *testing.T) {
	t.Parallel()
	n := newNames()
	eachTrio(func(sets trio) {
		for desired := range 6 {
			f := sets.facts(n, desired, rollout.Strategy{})
			for _, f.Strategy = range []rollout.Strategy{
				{Type: rollout.RollingUpdate, MaxUnavailable: 1}, {Type: rollout.RollingUpdate, MaxSurge: 2, MaxUnavailable: 1},
				{Type: rollout.OnDelete}, {Type: rollout.Recreate},
			} {
				if d := rollout.Plan(f); broken(f, d) != "" {
					t.Fatalf("%+v %+v, %d desired: %s: %+v", f.Strategy, sets, desired, broken(f, d), d)
				}
			}
		}
	})
}

func TestThreeSetsOfAPausedDeploymentShareWhatIsMissingOrTooMuch(t *testing.T) {
	t.Parallel()
	n := newNames()
	eachTrio(func(sets trio) {
		for variant := range 6 * 3 * 2 {
			desired, surge, frozen := variant%6, variant/6%3, variant/18 == 1
			f := sets.facts(n, desired, rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: surge})
			f.Paused = true
			sum := 0
			for i := range f.Sets {
				f.Sets[i].Frozen = frozen
				sum += f.Sets[i].Replicas
			}
			d := rollout.Plan(f)
			for _, change := range d.Replicas {
				sum += change.To - change.From
			}
			if want := sets.scaled(desired, surge, frozen); broken(f, d) != "" || sum != want {
				t.Fatalf("%+v, %d desired, surge %d, frozen %t: %s, %d in all, want %d: %+v", sets, desired, surge, frozen, broken(f, d), sum,
					want, d)
			}
		}
	})
}

// A marked Machine goes first, and may leave nothing of its set, although that is the first in the order of sets.
func TestWhatIsLeftOverGoesToTheFirstSetsThatHaveAShare(t *testing.T) {
	t.Parallel()
	one := worldSet{replicas: 1, count: [kinds]int{available: 1}}
	marks := worldSet{replicas: 1, count: [kinds]int{marked: 1}}
	for name, test := range map[string]struct {
		sets    trio
		desired int
		want    string
	}{
		"the oldest one has the mark":     {trio{marks, one, one}, 1, "[{ms1 1->0} {ms2 1->0}]"},
		"the second one has it":           {trio{one, marks, one}, 1, "[{ms1 1->0} {ms2 1->0}]"},
		"the current one has it":          {trio{one, one, marks}, 1, "[{ms1 1->0} {ms3 1->0}]"},
		"two of them":                     {trio{marks, marks, one}, 1, "[{ms1 1->0} {ms2 1->0}]"},
		"to none":                         {trio{marks, one, one}, 0, "[{ms1 1->0} {ms2 1->0} {ms3 1->0}]"},
		"beside a larger one":             {trio{marks, one, {replicas: 2, count: [kinds]int{available: 2}}}, 2, "[{ms1 1->0} {ms3 2->1}]"},
		"with room for what is left over": {trio{one, one, one}, 1, "[{ms1 1->0} {ms2 1->0}]"},
		"up, what is left over is shared": {trio{one, one, one}, 5, "[{ms2 1->2} {ms3 1->2}]"},
		"up, by more than there are":      {trio{one, one, one}, 8, "[{ms1 1->2} {ms2 1->3} {ms3 1->3}]"},
	} {
		t.Run(name, func(t *testing.T) {
			f := test.sets.facts(newNames(), test.desired, rollout.Strategy{Type: rollout.RollingUpdate, MaxUnavailable: 1})
			f.Paused = true
			d := rollout.Plan(f)
			require.Empty(t, broken(f, d))
			require.Equal(t, test.want, changes(d))
		})
	}
}
