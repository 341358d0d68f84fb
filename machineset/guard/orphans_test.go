package guard

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// noon is when tests begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fleet is a cluster of n Machines with their instances, and the passes over it.
type fleet struct {
	facts orphanFacts
	first int // which Machines are missing more often
}

func instance(i int) Instance {
	return Instance{
		Cluster: "demo", Token: fmt.Sprintf("uid-%d", i), ProviderID: fmt.Sprintf("cloud://zone/i-%d", i), Name: fmt.Sprintf("vm-%d", i),
	}
}

func machineOf(i int) Owner {
	return Owner{
		UID: types.UID(fmt.Sprintf("uid-%d", i)), Cluster: "demo", Name: fmt.Sprintf("m-%d", i), ProviderID: fmt.Sprintf("cloud://zone/i-%d", i),
		Created: noon.Add(-24 * time.Hour),
	}
}

func newFleet(n int) *fleet {
	f := &fleet{facts: orphanFacts{Started: noon.Add(-time.Hour), Now: noon}}
	for i := range n {
		f.facts.Instances = append(f.facts.Instances, instance(i))
		f.facts.Owners = append(f.facts.Owners, machineOf(i))
	}
	return f
}

// pass is one more pass, after some time.
func (f *fleet) pass(after time.Duration) orphanPlan {
	f.facts.Now = f.facts.Now.Add(after)
	p := planOrphans(f.facts)
	f.facts.Seen = p.Seen
	return p
}

// never passes many times, and wants no deletion.
func (f *fleet) never(t *testing.T) (last orphanPlan) {
	t.Helper()
	for range 20 {
		last = f.pass(15 * time.Minute)
		require.Empty(t, last.Delete)
	}
	return last
}

func TestAnInstanceWhoseMachineIsGoneIsDeletedAfterConfirmations(t *testing.T) {
	t.Parallel()
	f := newFleet(3)
	f.facts.Owners = f.facts.Owners[1:]
	p := f.pass(0)
	require.Empty(t, p.Delete)
	require.Len(t, p.Orphans, 1)
	require.Equal(t, "1 of 3 confirmations", p.Orphans[0].Waits)
	require.Equal(t, "1 of 3 confirmations", f.pass(time.Minute).Orphans[0].Waits, "two passes at once confirm once")
	require.Equal(t, "2 of 3 confirmations", f.pass(10 * time.Minute).Orphans[0].Waits)
	require.Equal(t, "it is watched until 2026-03-01T12:30:00Z", f.pass(10 * time.Minute).Orphans[0].Waits)
	p = f.pass(10 * time.Minute)
	require.Equal(t, []Instance{instance(0)}, p.Delete)
	f.facts.Instances[0].Leaving = true
	require.Empty(t, f.pass(time.Minute).Orphans)
}

// A cloud makes two instances for one creation, with one tag.
func TestASecondInstanceOfAMachineIsDeletedAndTheRecordedOneIsNot(t *testing.T) {
	t.Parallel()
	second := instance(0)
	second.ProviderID = "cloud://zone/i-second"
	f := newFleet(3)
	f.facts.Instances = append([]Instance{second}, f.facts.Instances...)
	var deleted []Instance
	for range 4 {
		deleted = append(deleted, f.pass(15*time.Minute).Delete...)
	}
	require.Contains(t, deleted, second)
	require.NotContains(t, deleted, instance(0))
	for _, change := range []func(*orphanFacts){
		func(f *orphanFacts) { f.Instances = append(f.Instances[1:3], second) }, // the recorded one is not listed: it may have another name
		func(f *orphanFacts) { f.Owners[0].ProviderID = "" },                    // none is recorded yet
		func(f *orphanFacts) { f.Instances[3].ProviderID = "" },                 // a deletion without it would be one of either
		func(f *orphanFacts) { f.Owners[1].ProviderID = second.ProviderID },     // another Machine has recorded it
	} {
		f = newFleet(3)
		f.facts.Instances = append(f.facts.Instances, second)
		change(&f.facts)
		f.never(t)
	}
}

func TestAPassDeletesNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(20)
	f.facts.Owners = f.facts.Owners[10:]
	f.facts.Limits.PerPass = 2
	gone := map[string]bool{}
	for range 20 {
		p := f.pass(15 * time.Minute)
		require.LessOrEqual(t, len(p.Delete), 2)
		for _, i := range p.Delete {
			gone[i.Token] = true
			for at := range f.facts.Instances {
				if f.facts.Instances[at].Token == i.Token {
					f.facts.Instances[at].Leaving = true
				}
			}
		}
	}
	require.Len(t, gone, 10)
}

func TestAnOrphanThatTheProviderDoesNotDeleteDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := newFleet(6)
	f.facts.Owners = f.facts.Owners[3:]
	asked := map[string]int{}
	for range 8 {
		p := f.pass(15 * time.Minute)
		require.LessOrEqual(t, len(p.Delete), 1)
		for _, i := range p.Delete {
			asked[i.Token]++
		}
	}
	require.Equal(t, map[string]int{"uid-0": 2, "uid-1": 2, "uid-2": 2}, asked, "each is asked for again after the others")
}

// Gardener issue 657: all workers were deleted after a restart while the API server of the Machines did not answer.
func TestAFleetIsNotDeletedByOrphanCollection(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*orphanFacts)
		why    string
	}{
		"the Machines could not be read": {func(f *orphanFacts) { f.Unread, f.Owners = true, nil },
			"the Machines could not be read from the API server"},
		"the list of Machines is empty": {func(f *orphanFacts) { f.Owners = nil }, "the API server has no Machine at all"},
		"it has those of other clusters": {func(f *orphanFacts) { f.Owners = []Owner{{UID: "x", Cluster: "other"}} },
			"the cluster has no Machine"},
		"it is short": {func(f *orphanFacts) { f.Owners = f.Owners[:9] },
			"11 instances have no Machine and 9 have one: the Machines may be incomplete"},
		"an API server is frozen": {func(f *orphanFacts) { f.Owners, f.Frozen = f.Owners[:15], true },
			"an API server is, or was a moment ago, unreachable"},
		"the instances are not all listed": {func(f *orphanFacts) {
			f.Owners, f.Unlisted = f.Owners[:15], map[string]string{"demo": "its instances could not be listed to the end"}
		},
			"its instances could not be listed to the end"},
		"the process does not know when it started": {func(f *orphanFacts) { f.Owners, f.Started = f.Owners[:15], time.Time{} },
			"the process has not run for 10m0s yet"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(20)
			tc.change(&f.facts)
			p := f.never(t)
			require.Contains(t, []string{p.Blocked[""], p.Blocked["demo"]}, tc.why)
		})
	}
}

func TestCollectionRightAfterTheStartWithAStaleCacheDeletesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(5)
	f.facts.Started, f.facts.Owners = noon, f.facts.Owners[1:]
	f.facts.Limits = OrphanLimits{Confirmations: 1, Age: time.Second, StartDelay: 10 * time.Minute}
	require.Equal(t, "the process has not run for 10m0s yet", f.pass(9 * time.Minute).Blocked[""])
	require.Empty(t, f.pass(2*time.Minute).Delete, "what came before does not count")
	require.Len(t, f.pass(time.Minute).Delete, 1)
}

// Gardener provider-aws issue 127: collection and creation at the same time.
func TestAnInstanceInCreationWhileCollectionRunsIsKept(t *testing.T) {
	t.Parallel()
	f := newFleet(3)
	f.facts.Owners[0].ProviderID = "" // its answer is not recorded yet
	f.facts.Instances[1].ProviderID = ""
	f.never(t)
}

// A Machine whose deletion the cloud only seemed to do comes back under its name, or from a backup.
func TestAnInstanceWithTheNameOfAMachineThatHasAnotherOneIsReportedAndKept(t *testing.T) {
	t.Parallel()
	f := newFleet(3)
	f.facts.Owners[0].Name, f.facts.Owners[0].ProviderID = "vm-0", ""
	earlier := instance(0)
	earlier.Token, earlier.ProviderID = "uid-before", "cloud://zone/i-before"
	f.facts.Instances = append(f.facts.Instances, earlier)
	require.Empty(t, f.never(t).Orphans, "it may be the Machine's")

	f.facts.Owners[0].ProviderID = instance(0).ProviderID
	require.Equal(t, []Orphan{{Instance: earlier, Waits: "Machine vm-0 of cluster demo has its name, and the instance " +
		"cloud://zone/i-0: delete the instance that is not needed"}}, f.never(t).Orphans)

	f.facts.Owners[0].ProviderID = "cloud://zone/i-elsewhere"
	require.Empty(t, f.never(t).Orphans, "the recorded instance is not listed: the form of IDs may have changed")
}

func TestAChangeOfTheFormOfProviderIDsMakesNoOrphans(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{
		"a zone less": "cloud:///i-%d", "another scheme": "cloud2://zone/i-%d", "a region more": "cloud://eu/zone/i-%d",
		"nothing but the ID": "i-%d",
		"capitals":           "CLOUD://ZONE/I-%d", "a slash more": "cloud://zone/i-%d/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, restored := range []bool{false, true} {
				f := newFleet(9)
				for i := range f.facts.Instances {
					f.facts.Instances[i].ProviderID = fmt.Sprintf(form, i)
					if restored {
						f.facts.Owners[i].UID += "-restored"
					}
				}
				require.Empty(t, f.never(t).Orphans)
			}
		})
	}
	f := newFleet(9)
	for i := range f.facts.Instances {
		f.facts.Instances[i].ProviderID = fmt.Sprintf("other://%d", 1000+i)
	}
	require.Empty(t, f.never(t).Orphans, "the token is enough")
}

func TestARestoredBackupMakesNoOrphans(t *testing.T) {
	t.Parallel()
	f := newFleet(10)
	f.facts.Limits = OrphanLimits{Age: time.Minute, Spacing: time.Minute}
	for i := range f.facts.Owners {
		f.facts.Owners[i].UID += "-restored"
		f.facts.Owners[i].Created = noon
	}
	all := f.facts.Owners
	f.facts.Owners = all[:7] // the others come later
	for range 10 {
		p := f.pass(5 * time.Minute)
		require.Empty(t, p.Delete)
		require.Contains(t, p.Blocked["demo"], "was restored less than 1h0m0s ago: others may follow")
	}
	f.facts.Owners = all
	require.Empty(t, f.never(t).Orphans)
	f.facts.Owners = all[:9]
	require.Empty(t, f.pass(time.Minute).Delete)
	f.pass(time.Minute)
	require.Len(t, f.pass(time.Minute).Delete, 1, "an hour later a Machine that goes counts again")
}

func TestInstancesOfOthersAreNotTouched(t *testing.T) {
	t.Parallel()
	f := newFleet(5)
	by := func(change func(*Instance)) {
		i := instance(100 + len(f.facts.Instances))
		change(&i)
		f.facts.Instances = append(f.facts.Instances, i)
	}
	by(func(i *Instance) { i.Token = "" })          // no Driver has made it
	by(func(i *Instance) { i.Name = "m-3" })        // a Machine has its name
	by(func(i *Instance) { i.Leaving = true })      // it goes already
	by(func(i *Instance) { i.Cluster = "foreign" }) // no Machine here is of that cluster
	require.Len(t, f.never(t).Orphans, 2, "the one with the name of a Machine, and the foreign one, are reported")
}

func TestAMachineOfAnotherNamespaceOrManagerOwnsItsInstanceToo(t *testing.T) {
	t.Parallel()
	f := newFleet(5)
	f.facts.Owners[2].Cluster, f.facts.Owners[2].ProviderID = "another", ""
	f.facts.Owners[3].ProviderID = "" // it has not recorded it yet
	require.Empty(t, f.never(t).Orphans)
}

func TestASightingBeginsAnewWhenAMachineAppears(t *testing.T) {
	t.Parallel()
	f := newFleet(3)
	all := f.facts.Owners
	f.facts.Owners = all[1:]
	f.pass(0)
	f.pass(15 * time.Minute)
	f.facts.Owners, f.facts.Frozen = all, true
	f.pass(time.Minute)
	require.Empty(t, f.facts.Seen, "that there is a Machine counts in any case")
	f.facts.Owners, f.facts.Frozen = all[1:], false
	require.Equal(t, "1 of 3 confirmations", f.pass(15 * time.Minute).Orphans[0].Waits)
	f.facts.Frozen = true
	require.Len(t, f.pass(15*time.Minute).Seen, 1, "a pass that decides nothing neither confirms nor forgets")
	f.facts.Frozen, f.facts.Instances = false, f.facts.Instances[1:]
	require.Empty(t, f.pass(time.Minute).Seen, "it is gone")
}

func TestAnInstanceThatIsListedTwiceIsDeletedOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(4)
	f.facts.Owners, f.facts.Instances = f.facts.Owners[1:], append(f.facts.Instances, instance(0))
	f.facts.Limits.PerPass = 5
	for range 2 {
		f.pass(15 * time.Minute)
	}
	require.Len(t, f.pass(15*time.Minute).Delete, 1)
}

// observes makes the facts of the next pass up: some of the Machines are missing, or something could not be read.
func (f *fleet) observes(chance *rand.Rand, whole []Owner) {
	f.facts.Unread, f.facts.Frozen = chance.Intn(6) == 0, chance.Intn(6) == 0
	f.facts.Unlisted = nil
	if chance.Intn(6) == 0 {
		f.facts.Unlisted = map[string]string{"demo": "no answer"}
	}
	f.facts.Owners = nil
	lacking, first := chance.Intn(14), f.first
	for i := range whole {
		if (i+first)%13 >= lacking {
			f.facts.Owners = append(f.facts.Owners, whole[i])
		}
	}
}

// No history of observations deletes an instance of which a Machine was shown in the last three passes that decided anything, more than the
// limit in one pass, or anything in a pass that must not decide.
func TestNoHistoryOfObservationsDeletesMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	for seed := range int64(300) {
		chance := rand.New(rand.NewSource(seed)) //nolint:gosec // a seeded history
		f := newFleet(12)
		f.facts.Limits = OrphanLimits{PerPass: 1 + chance.Intn(2), Age: 10 * time.Minute, Spacing: 5 * time.Minute}
		whole, instances := f.facts.Owners, f.facts.Instances
		f.first = int(seed)
		unseen := map[string]int{}
		deleted := 0
		for range 40 {
			f.observes(chance, whole)
			p := f.pass(time.Duration(chance.Intn(20)) * time.Minute)
			shown := map[string]bool{}
			for _, o := range f.facts.Owners {
				shown[string(o.UID)] = true
			}
			decides := !f.facts.Unread && !f.facts.Frozen && f.facts.Unlisted == nil && len(f.facts.Owners)*2 >= len(instances)
			for _, i := range instances {
				switch {
				case shown[i.Token] && !f.facts.Unread && f.facts.Unlisted == nil:
					unseen[i.Token] = 0
				case decides:
					unseen[i.Token]++
				}
			}
			require.LessOrEqual(t, len(p.Delete), f.facts.Limits.PerPass, "seed %d", seed)
			for _, i := range p.Delete {
				deleted++
				require.True(t, decides, "seed %d", seed)
				require.GreaterOrEqual(t, unseen[i.Token], 3, "seed %d", seed)
			}
		}
		require.LessOrEqual(t, deleted, 40*f.facts.Limits.PerPass)
	}
}

func TestPlansAreDeterministic(t *testing.T) {
	t.Parallel()
	f := newFleet(12)
	f.facts.Owners = f.facts.Owners[6:]
	want := planOrphans(f.facts)
	for seed := range int64(20) {
		chance := rand.New(rand.NewSource(seed)) //nolint:gosec // a seeded order
		chance.Shuffle(len(f.facts.Instances), func(i, j int) {
			f.facts.Instances[i], f.facts.Instances[j] = f.facts.Instances[j], f.facts.Instances[i]
		})
		require.Equal(t, want, planOrphans(f.facts))
	}
}
