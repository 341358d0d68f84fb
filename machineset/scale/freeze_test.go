package scale_test

import (
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// machines are some that were created at a time.
func machines(n int, created time.Time) []scale.Machine {
	all := make([]scale.Machine, n)
	for i := range all {
		all[i].Created = created
	}
	return all
}

func leaving(n int) []scale.Machine {
	all := machines(n, noon.Add(-time.Hour))
	for i := range all {
		all[i].Deleting = true
	}
	return all
}

// history evaluates a set again and again, and remembers as package guard does.
type history struct {
	set scale.FreezeFacts
}

func begin(desired int) *history {
	return &history{scale.FreezeFacts{Desired: contract.Some(desired), Now: noon}}
}

func (h *history) with(all ...scale.Machine) scale.FreezeVerdict {
	h.set.Now = h.set.Now.Add(time.Minute)
	h.set.Machines = all
	v := scale.Overshoot(h.set)
	h.set.Mark = v.Mark
	switch v.Action {
	case scale.Freeze:
		h.set.Freezing = scale.FrozenByGuard
	case scale.Thaw:
		h.set.Freezing = scale.NotFrozen
	case scale.Keep:
	}
	return v
}

func TestASetFreezesAtTheHighMarkAndThawsAtTheLowOne(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		set       scale.FreezeFacts
		high, low int
	}{
		"without a deployment": {scale.FreezeFacts{Desired: contract.Some(3)}, 8, 7},
		"of a deployment":      {scale.FreezeFacts{Desired: contract.Some(3), Deployment: true, Ceiling: contract.Some(11)}, 13, 12},
		"a surge that is nil or that cannot be read is none": {scale.FreezeFacts{Desired: contract.Some(3), Deployment: true,
			Ceiling: contract.Some(3)}, 5, 4},
		"limits of its own": {scale.FreezeFacts{Desired: contract.Some(3), Limits: scale.FreezeLimits{Up: 10, Down: 5}}, 16, 11},
		"never thawed below what it wants": {scale.FreezeFacts{Desired: contract.Some(30), Deployment: true, Ceiling: contract.Some(30),
			Limits: scale.FreezeLimits{Down: 9}}, 32, 30},
		"of a deployment that wants less now": {
			scale.FreezeFacts{Desired: contract.Some(9), Deployment: true, Ceiling: contract.Some(0)}, 11, 10},
		"wants none": {scale.FreezeFacts{Desired: contract.Some(0)}, 2, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := history{tc.set}
			h.set.Now = noon
			require.Equal(t, scale.Keep, h.with(machines(tc.high-1, noon)...).Action)
			v := h.with(machines(tc.high, noon)...)
			require.Equal(t, scale.Freeze, v.Action)
			require.Equal(t, scale.ReasonOverShooting, v.Reason)
			count, high, low := v.Marks()
			require.Equal(t, []int{tc.high, tc.high, tc.low}, []int{count, high, low})
			require.Equal(t, scale.Keep, h.with(machines(tc.high, noon)...).Action)
			for n := tc.high - 1; n > tc.low; n-- {
				require.Equal(t, scale.Keep, h.with(machines(n, noon)...).Action, "between the marks nothing changes")
			}
			require.Equal(t, scale.Thaw, h.with(machines(tc.low, noon)...).Action)
		})
	}
}

// Gardener freezes a set that is scaled from 6 to 2 (issue 82), and one that was frozen so may stay so (issues 88 and 197).
func TestAGenuineScaleDownDoesNotFreeze(t *testing.T) {
	t.Parallel()
	h := begin(6)
	require.Equal(t, scale.Keep, h.with(machines(6, noon)...).Action)
	h.set.Desired = contract.Some(2)
	require.Equal(t, scale.Keep, h.with(machines(6, noon)...).Action)
	require.Equal(t, scale.Keep, h.with(append(machines(2, noon), leaving(4)...)...).Action)
	require.Equal(t, scale.Keep, h.with(machines(2, noon)...).Action)
	require.Equal(t, scale.Freeze, h.with(machines(6, noon)...).Action, "afterwards the mark is that of the new wish")
}

func TestARunawayDuringAScaleDownFreezes(t *testing.T) {
	t.Parallel()
	h := begin(100)
	h.with(machines(100, noon)...)
	h.set.Desired = contract.Some(10)
	require.Equal(t, scale.Keep, h.with(machines(100, noon)...).Action)
	require.Equal(t, scale.Keep, h.with(machines(60, noon)...).Action)
	require.Equal(t, scale.Freeze, h.with(machines(72, noon)...).Action, "12 more than before, and 12 is what 10 may have beyond")
	require.Equal(t, scale.Thaw, h.with(machines(60, noon)...).Action)
}

func TestAProcessThatStartsDuringAScaleDownDoesNotFreeze(t *testing.T) {
	t.Parallel()
	h := begin(10)
	require.Equal(t, scale.Keep, h.with(machines(80, noon.Add(-time.Hour))...).Action)
	require.Equal(t, scale.Freeze, h.with(machines(93, noon.Add(-time.Hour))...).Action)
}

func TestAProcessThatStartsDuringARunawayFreezes(t *testing.T) {
	t.Parallel()
	h := begin(10)
	all := append(machines(10, noon.Add(-time.Hour)), machines(12, noon)...)
	require.Equal(t, scale.Freeze, h.with(all...).Action)
	restarted := history{h.set}
	restarted.set.Mark = contract.Opt[int]{}
	restarted.set.Now = noon.Add(24 * time.Hour)
	require.Equal(t, scale.Keep, restarted.with(all...).Action, "a frozen set is not thawed by a restart")
}

func TestADrainThatTakesLongDoesNotFreeze(t *testing.T) {
	t.Parallel()
	h := begin(10)
	h.set.Deployment, h.set.Ceiling = true, contract.Some(11)
	h.with(machines(10, noon)...)
	require.Equal(t, scale.Keep, h.with(append(machines(10, noon), leaving(10)...)...).Action, "each is replaced once")
	require.Equal(t, scale.Freeze, h.with(append(machines(10, noon), leaving(13)...)...).Action, "creating and deleting without end")
}

// A Machine in deletion is one more than the set wants when fewer are wanted than are being deleted. What the set wants then comes on top.
func TestASetThatCreatesWhatItWantsBesideMachinesInDeletionDoesNotFreeze(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(h *history){
		"a process that starts": func(*history) {},
		"scaled to none before": func(h *history) {
			h.set.Desired, h.set.Ceiling = contract.Some(30), contract.Some(31)
			h.with(machines(30, noon)...)
			h.set.Desired, h.set.Ceiling = contract.Some(0), contract.Some(0)
			h.with(leaving(30)...)
		},
		"a person thaws it": func(h *history) {
			h.set.Freezing, h.set.Unfreeze = scale.FrozenByGuard, true
			require.Equal(t, scale.Thaw, h.with(leaving(30)...).Action)
			h.set.Unfreeze = false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(5)
			h.set.Deployment = true
			before(h)
			h.set.Desired, h.set.Ceiling = contract.Some(5), contract.Some(6)
			for n := range 6 {
				require.Equal(t, scale.Keep, h.with(append(machines(n, noon), leaving(30)...)...).Action, "%d Machines of 5", n)
			}
			restarted := history{h.set}
			restarted.set.Mark = contract.Opt[int]{}
			require.Equal(t, scale.Keep, restarted.with(append(machines(5, noon), leaving(30)...)...).Action)
			require.Equal(t, scale.Keep, h.with(append(machines(5, noon), leaving(31)...)...).Action)
			require.Equal(t, scale.Freeze, h.with(append(machines(5, noon), leaving(33)...)...).Action, "creating and deleting without end")
		})
	}
}

func TestWhatIsNotKnownChangesNothing(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]scale.FreezeFacts{
		"replicas":                {},
		"replicas, frozen":        {Freezing: scale.FrozenByGuard},
		"surge of the deployment": {Desired: contract.Some(2), Deployment: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set.Machines, set.Mark, set.Now = machines(100, noon), contract.Some(7), noon
			require.Equal(t, scale.FreezeVerdict{Mark: contract.Some(7)}, scale.Overshoot(set))
		})
	}
}

func TestAThawByHandLasts(t *testing.T) {
	t.Parallel()
	h := begin(2)
	require.Equal(t, scale.Freeze, h.with(machines(30, noon)...).Action)
	h.set.Unfreeze = true
	v := h.with(machines(30, noon)...)
	require.Equal(t, scale.Thaw, v.Action)
	require.Empty(t, v.Reason)
	require.Equal(t, scale.Keep, h.with(machines(31, noon)...).Action, "its deployment has the request for a moment longer")
	h.set.Unfreeze = false
	require.Equal(t, scale.Keep, h.with(machines(31, noon)...).Action)
	require.Equal(t, scale.Freeze, h.with(machines(60, noon)...).Action)
}

func TestAFreezeOfAPersonEndsWithAPerson(t *testing.T) {
	t.Parallel()
	h := begin(3)
	h.set.Freezing = scale.FrozenByPerson
	require.Equal(t, scale.Keep, h.with().Action)
	require.Equal(t, scale.Keep, h.with(machines(50, noon)...).Action)
	h.set.Unfreeze, h.set.Desired = true, contract.Opt[int]{}
	require.Equal(t, scale.Thaw, h.with(machines(3, noon)...).Action, "also of a set without replicas")
}

// No history of wishes and Machines lets a set create more than its headroom beyond what it had, or wanted, before it is frozen; and a set
// that has what it wants is never frozen for long.
func TestNoHistoryLetsASetRunAway(t *testing.T) {
	t.Parallel()
	for seed := range int64(500) {
		chance := rand.New(rand.NewSource(seed)) //nolint:gosec // a seeded history
		desired := chance.Intn(20)
		h, widest := begin(desired), 2*desired+2
		n := desired
		for range 60 {
			switch chance.Intn(4) {
			case 0:
				desired = chance.Intn(20)
			case 1: // the set does what it should
				n += (desired - n) / 2
			}
			if h.set.Freezing == scale.NotFrozen {
				n += chance.Intn(3) // something else creates
			} else {
				n = max(n-chance.Intn(3), desired)
			}
			h.set.Desired = contract.Some(desired)
			widest = max(widest, 2*desired+2)
			v := h.with(machines(n, noon)...)
			require.LessOrEqual(t, n, widest+2, "seed %d", seed)
			if n <= desired {
				require.Equal(t, scale.NotFrozen, h.set.Freezing, "seed %d", seed)
			}
			_, high, low := v.Marks()
			require.GreaterOrEqual(t, low, desired)
			require.Less(t, low, high)
		}
	}
}

func TestADeploymentFollowsItsSets(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		freezing scale.Freezing
		unfreeze bool
		frozen   []string
		action   scale.FreezeAction
		reason   string
	}{
		"none is frozen":            {},
		"one is":                    {frozen: []string{"a", "b"}, action: scale.Freeze, reason: scale.ReasonMachineSetFrozen},
		"it is already":             {frozen: []string{"a"}, freezing: scale.FrozenByGuard},
		"none is any more":          {freezing: scale.FrozenByGuard, action: scale.Thaw},
		"a person froze it":         {freezing: scale.FrozenByPerson},
		"its sets have to follow":   {frozen: []string{"a"}, freezing: scale.FrozenByGuard, unfreeze: true},
		"its sets have followed":    {freezing: scale.FrozenByGuard, unfreeze: true, action: scale.Thaw},
		"a person thaws their own":  {freezing: scale.FrozenByPerson, unfreeze: true, action: scale.Thaw},
		"there is nothing to thaw":  {unfreeze: true, action: scale.Thaw},
		"a person's and one frozen": {frozen: []string{"a"}, freezing: scale.FrozenByPerson},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := scale.FollowFreeze(tc.freezing, tc.unfreeze, tc.frozen)
			require.Equal(t, tc.action, v.Action)
			require.Equal(t, tc.reason, v.Reason)
		})
	}
}

func TestLabelsSayWhoHasFrozenAnObject(t *testing.T) {
	t.Parallel()
	frozen := []metav1.Condition{{Type: scale.ConditionFrozen, Reason: scale.ReasonOverShooting}}
	tests := map[string]struct {
		group      string
		labels     map[string]string
		conditions []metav1.Condition
		want       scale.Freezing
	}{
		"not at all":              {want: scale.NotFrozen},
		"a person":                {labels: map[string]string{scale.FreezeLabel: "True"}, want: scale.FrozenByPerson},
		"false":                   {labels: map[string]string{scale.FreezeLabel: "false"}, want: scale.NotFrozen},
		"a text that is no value": {labels: map[string]string{scale.FreezeLabel: "please"}, want: scale.FrozenByPerson},
		"a yes":                   {labels: map[string]string{scale.FreezeLabel: "yes"}, want: scale.FrozenByPerson},
		"no value":                {labels: map[string]string{scale.FreezeLabel: ""}, want: scale.FrozenByPerson},
		"a number of Machines":    {labels: map[string]string{scale.FreezeLabel: scale.ReasonOverShooting}, want: scale.FrozenByGuard},
		"a set of the deployment": {labels: map[string]string{scale.FreezeLabel: scale.ReasonMachineSetFrozen}, want: scale.FrozenByGuard},
		"another group's label":   {group: "cluster.x-k8s.io", labels: map[string]string{"freeze": "True"}, want: scale.NotFrozen},
		"Gardener's label":        {group: scale.GardenerGroup, labels: map[string]string{"freeze": "True"}, want: scale.FrozenByPerson},
		"Gardener's controller": {group: scale.GardenerGroup, labels: map[string]string{"freeze": "True"}, conditions: frozen,
			want: scale.FrozenByGuard},
		"a person over a number": {labels: map[string]string{scale.FreezeLabel: "True"}, conditions: frozen, want: scale.FrozenByPerson},
		"a person beside Gardener's controller": {group: scale.GardenerGroup, conditions: frozen,
			labels: map[string]string{scale.FreezeLabel: "True", "freeze": "True"}, want: scale.FrozenByPerson},
		"Gardener's label beside false": {group: scale.GardenerGroup,
			labels: map[string]string{scale.FreezeLabel: "false", "freeze": "True"}, want: scale.FrozenByPerson},
		"a condition alone": {group: scale.GardenerGroup, conditions: frozen, want: scale.NotFrozen},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &contract.Metadata{Labels: tc.labels}
			require.Equal(t, tc.want, scale.FreezingOf(tc.group, m, tc.conditions))
		})
	}
}

func TestEveryReasonIsTheValueOfALabel(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{scale.ReasonOverShooting, scale.ReasonMachineSetFrozen} {
		for _, group := range []string{"cluster.x-k8s.io", scale.GardenerGroup} {
			m := contract.Metadata{Labels: map[string]string{}}
			for key, change := range scale.FreezeLabels(group, reason).Labels {
				value, set := change.Value()
				require.True(t, set)
				require.Empty(t, validation.IsValidLabelValue(value))
				m.Labels[key] = value
			}
			require.Equal(t, scale.FrozenByGuard, scale.FreezingOf(group, &m, nil))
		}
	}
}
