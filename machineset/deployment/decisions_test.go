package deployment

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// A rollout that counted on a Machine that its set has decided to replace would let another one go beside it.
func TestAMachineThatItsSetReplacesDoesNotCountAsAvailable(t *testing.T) {
	t.Parallel()
	state := &contract.MachineSetState{}
	state.UID = "set"
	ledger := scale.Ledger{Set: "set", Next: 3, Replaced: scale.Replacements{Names: []string{"a"}, From: 3, Count: 1, Last: 1}}
	state.Annotations = map[string]string{scale.LedgerAnnotation: ledger.String()}
	one := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
	for _, name := range []string{"a", "b"} {
		m := &contract.MachineState{Conditions: []metav1.Condition{{Type: contract.ConditionAvailable, Status: metav1.ConditionTrue}}}
		m.Key.Name, m.UID = name, types.UID(name)
		one.machines = append(one.machines, machine{State: m, Metadata: &m.Metadata})
	}
	one.count()
	facts := one.facts(nil)
	require.Equal(t, []bool{false, true}, []bool{facts.Machines[0].Available, facts.Machines[1].Available})
	state.Annotations[scale.LedgerAnnotation] = "?" // the set replaces nothing until it is corrected
	one.count()
	require.True(t, one.facts(nil).Machines[0].Available)
}

func TestStrategyOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind, orchestration string
		want                rollout.Type
		says                string
	}{
		"the default":                        {want: rollout.RollingUpdate},
		"Recreate":                           {kind: "Recreate", want: rollout.Recreate},
		"in place, by itself":                {kind: "InPlaceUpdate", want: rollout.InPlaceAuto},
		"in place, by labels":                {kind: "InPlaceUpdate", orchestration: "Manual", want: rollout.InPlaceManual},
		"what a plan calls it is no type":    {kind: "InPlaceAuto", says: `rollout type "InPlaceAuto"`},
		"an orchestration that nobody knows": {kind: "InPlaceUpdate", orchestration: "Sometimes", says: "or InPlaceUpdate with Auto or Manual"},
	} {
		d := &contract.MachineDeploymentState{}
		d.RolloutType, d.InPlaceOrchestration = tc.kind, tc.orchestration
		got, err := strategyOf(d)
		if tc.says != "" {
			require.ErrorContains(t, err, tc.says, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got.Type, name)
	}
}

// A kind may have no number of updated Machines: then the current set says how many there are.
func TestCommandsCountUpdatedMachinesOfAKindWithoutTheirNumber(t *testing.T) {
	t.Parallel()
	state := &contract.MachineSetState{}
	state.UID, state.Replicas = "current", contract.Some[int32](3)
	d := &contract.MachineDeploymentState{}
	d.Replicas, d.ObservedReplicas = contract.Some[int32](3), contract.Some[int32](3)
	current := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
	got, begun := Commands{}.counts(d, []*set{current})
	require.True(t, begun)
	require.Equal(t, Progress{Desired: 3, Replicas: 3, Updated: 3}, got)
}

func TestUpToDateDecision(t *testing.T) {
	not := func(reason, message string) metav1.Condition {
		return engine.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, reason, message)
	}
	updating := func(message string) metav1.Condition { return engine.Condition("", metav1.ConditionTrue, "R", message) }
	for name, tc := range map[string]struct {
		diff     []string
		outdated bool
		updating metav1.Condition
		want     metav1.Condition
	}{
		"the same": {want: engine.Condition(contract.ConditionUpToDate, metav1.ConditionTrue, contract.ReasonUpToDate, "")},
		"places differ": {diff: []string{"spec.template.spec.version", "selector"}, outdated: true,
			want: not(contract.ReasonNotUpToDate, "* spec.template.spec.version\n* selector")},
		"a rollout without a change":  {outdated: true, want: not(contract.ReasonNotUpToDate, "* The rollout replaces the Machines of old")},
		"an update in place":          {updating: updating("half way"), want: not(contract.ReasonUpdating, "* half way")},
		"an update without a message": {updating: updating(""), want: not(contract.ReasonUpdating, "* In-place update in progress")},
	} {
		t.Run(name, func(t *testing.T) {
			one := &set{diff: tc.diff}
			one.Metadata = &contract.Metadata{}
			one.Key.Name = "old"
			if diff := cmp.Diff(tc.want, one.upToDate(tc.outdated, tc.updating)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRollbackFindsTheRevision(t *testing.T) {
	t.Parallel()
	one := func(revision int64, matches, deleting bool) *set {
		state := &contract.MachineSetState{}
		state.Key.Name = fmt.Sprint(revision)
		if state.Annotations = map[string]string{contract.RevisionAnnotation: fmt.Sprint(revision)}; deleting {
			state.Deleting = time.Unix(1, 0)
		}
		s := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
		if !matches {
			s.diff = []string{"template"}
		}
		return s
	}
	for name, tc := range map[string]struct {
		sets     []*set
		revision int64
		want     string // the name of the set, or what the error says
	}{
		"the one before the current one":   {sets: []*set{one(2, false, false), one(5, true, false)}, want: "2"},
		"sets in deletion do not count":    {sets: []*set{one(2, false, false), one(5, true, false), one(4, false, true)}, want: "2"},
		"one in deletion by its number":    {sets: []*set{one(5, true, false), one(4, false, true)}, revision: 4, want: "there is no revision 4"},
		"one by its number":                {sets: []*set{one(2, false, false), one(5, true, false)}, revision: 2, want: "2"},
		"the current one by its number":    {sets: []*set{one(2, false, false), one(5, true, false)}, revision: 5, want: "of revision 5 already"},
		"no set has the template yet":      {sets: []*set{one(1, false, false), one(2, false, false)}, want: "2"},
		"the only set, of before a change": {sets: []*set{one(1, false, false)}, want: "1"},
		"the set with the template is going": {
			sets: []*set{one(1, false, false), one(2, false, false), one(3, true, true)}, want: "2"},
		"the set with the template is not numbered yet": {
			sets: []*set{one(1, false, false), one(2, false, false), one(0, true, false)}, want: "2"},
		"again, before the set of the first time has a new number": {
			sets: []*set{one(1, true, false), one(2, false, false)}, want: "of revision 1 already"},
		"the first revision is current": {sets: []*set{one(1, true, false)}, want: "no earlier revision"},
		"none is numbered":              {sets: []*set{one(0, false, false)}, want: "no earlier revision"},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Reverse(tc.sets)
			for range 2 {
				slices.Reverse(tc.sets)
				if got, err := revisionOf(tc.sets, tc.revision); err != nil {
					require.ErrorIs(t, err, ErrRevision)
					require.ErrorContains(t, err, tc.want)
				} else {
					require.Equal(t, tc.want, got.Key.Name)
				}
			}
		})
	}
}

// Who replaces a broken Machine of an outdated set: the rollout, its set by itself, or its set together with the current one.
func TestWhoReplacesABrokenOutdatedMachine(t *testing.T) {
	const (
		rollsOut, alone = `{"outdated":true}`, `{}`
		together        = `{"elsewhere":true}`
		nobody          = "{}, creates nothing"
	)
	// Of each strategy: while it runs, while it is paused, frozen, and cannot create.
	tests := map[rollout.Type][4]string{
		rollout.RollingUpdate: {rollsOut, alone, alone, alone},
		rollout.Recreate:      {rollsOut, alone, nobody, alone},
		rollout.OnDelete:      {together, alone, nobody, alone},
		rollout.InPlaceAuto:   {together, alone, nobody, alone},
		rollout.InPlaceManual: {together, alone, nobody, alone},
	}
	states := []struct {
		name                    string
		paused, frozen, blocked bool
	}{
		{name: "it runs"}, {name: "paused", paused: true}, {name: "frozen", frozen: true}, {name: "blocked", blocked: true},
	}
	for strategy, want := range tests {
		for i, is := range states {
			for _, current := range []types.UID{"new", ""} {
				if current == "" && is.blocked {
					continue
				}
				t.Run(string(strategy)+", "+is.name+", current "+string(current), func(t *testing.T) {
					state := &contract.MachineSetState{}
					state.UID, state.Replicas = "old", contract.Some[int32](3)
					old := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
					s := &Scope{facts: rollout.Facts{Strategy: rollout.Strategy{Type: strategy}}, observed: []*set{old}}
					s.State.RolloutPaused, s.facts.Paused = is.paused, is.paused || is.frozen
					s.plan.Stalled, s.plan.Current.UID = is.blocked || s.facts.Paused, current
					got := s.limits("old").String()
					limits, err := scale.LimitsOf(&contract.Metadata{Annotations: map[string]string{scale.LimitsAnnotation: got}}, true)
					require.NoError(t, err)
					require.Equal(t, limits, s.limits("old"))
					if s.keepsFromCreating(old) && got == alone {
						got = nobody
					}
					require.Equal(t, want[i], got)
					require.Equal(t, got == together || got == nobody || strategy == rollout.Recreate && got == rollsOut, s.keepsFromCreating(old))
				})
			}
		}
	}
}

// What a process remembers is lost when it is restarted: the deadline is judged by what is stored.
func TestTheProgressDeadlineRunsFromTheBeginningOfARolloutAcrossRestarts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := func(kind string, status metav1.ConditionStatus, reason string, ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	}
	long, short := time.Hour, time.Minute
	both := func(status metav1.ConditionStatus, reason string, since time.Duration, rolling metav1.ConditionStatus,
		began time.Duration) []metav1.Condition {
		return []metav1.Condition{said(ConditionProgressing, status, reason, since), said(ConditionRollingOut, rolling, "", began)}
	}
	for name, c := range map[string]struct {
		stored           []metav1.Condition
		complete, paused bool
		outdated         bool
		want             string
		left             time.Duration // until it has to be judged again; zero is not compared
	}{
		"a first rollout has just begun": {outdated: true, want: progressing},
		"a rollout begins long after the last one": {
			stored:   both("True", completed, long, "False", long),
			outdated: true, want: progressing,
		},
		"it has begun a minute ago":    {stored: both("True", progressing, long, "True", short), outdated: true, want: progressing},
		"nothing has changed for long": {stored: both("True", progressing, long, "True", long), outdated: true, want: deadlineExceeded},
		"a second is left": {
			stored:   both("True", progressing, long, "True", 10*time.Minute-time.Second),
			outdated: true, want: progressing, left: time.Second,
		},
		"none is left":      {stored: both("True", progressing, long, "True", 10*time.Minute), outdated: true, want: deadlineExceeded},
		"it stays exceeded": {stored: both("False", deadlineExceeded, short, "True", long), outdated: true, want: deadlineExceeded},
		"a rollout is resumed after a long pause": {
			stored:   both("Unknown", progressPaused, long, "True", long),
			outdated: true, want: progressing,
		},
		"a Machine fails long after the rollout": {stored: both("True", completed, long, "False", long), want: completed},
		"a paused rollout":                       {paused: true, outdated: true, want: progressPaused},
		"a complete one":                         {complete: true, want: completed},
	} {
		s := &Scope{planned: true, env: &Reconciler{}}
		s.Now, s.Stored, s.State.RolloutPaused = now, c.stored, c.paused
		s.State.ProgressDeadline = contract.Some(10 * time.Minute)
		s.plan.Complete, s.plan.Current.UID = c.complete, "new"
		one := &set{Child: children.Child[contract.MachineSetState]{State: new(contract.MachineSetState)}}
		one.Metadata = &one.State.Metadata
		one.UID, one.Created = "new", now.Add(-long)
		m := machine{State: new(contract.MachineState)}
		m.State.Created = now.Add(-long)
		one.machines = append(one.machines, m)
		if c.outdated {
			one.UID = "old"
			s.plan.Outdated = append(s.plan.Outdated, one.UID)
		}
		s.observed = append(s.observed, one)
		facts := s.statusFacts()
		all := s.progressing(&facts)
		require.Len(t, all, 1, name)
		require.Equal(t, c.want, all[0].Reason, name)
		if c.left > 0 {
			require.Equal(t, c.left, s.RequeueAfter(), name)
		}
	}
}
