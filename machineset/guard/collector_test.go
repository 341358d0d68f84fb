package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// fleet is a world with a cloud, in which Machines have instances.
type fleet struct {
	*world

	cloud    *fake.Driver
	clock    *clocktesting.FakeClock
	recorder *events.FakeRecorder
	options  guard.CollectorOptions
	c        *guard.Collector
}

func newFleet(t *testing.T, n int, change func(*fleet)) *fleet {
	t.Helper()
	f := &fleet{
		world: newWorld(t), clock: clocktesting.NewFakeClock(time.Now()), recorder: events.NewFakeRecorder(100),
	}
	f.cloud = fake.NewDriver(fake.DriverOptions{Clock: f.clock, Vanish: time.Hour})
	f.options = guard.CollectorOptions{
		Calls: provider.Of(f.cloud), Sources: []guard.Source{guard.MachinesOf(f.Client, f.kind)}, Clock: f.clock, Recorder: f.recorder,
		EventsOn: func(cluster types.NamespacedName) *corev1.ObjectReference {
			return &corev1.ObjectReference{Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name}
		},
		Delete: true, Limits: guard.OrphanLimits{PerPass: 2},
	}
	for i := range n {
		f.machine(fmt.Sprintf("m-%d", i))
	}
	if change != nil {
		change(f)
	}
	var err error
	f.c, err = guard.NewCollector(f.options)
	require.NoError(t, err)
	f.starts()
	return f
}

// starts has the Collector lead from now on.
func (f *fleet) starts() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	cancel()
	require.NoError(f.t, f.c.Start(ctx))
}

// machine creates a Machine with its instance.
func (f *fleet) machine(name string) *unstructured.Unstructured {
	f.t.Helper()
	u := testenv.Object(f.kind.GVK, name)
	u.Object["spec"] = map[string]any{"clusterName": "demo"}
	f.Create(u)
	i, err := f.cloud.Create(f.t.Context(), provider.Request{
		Token: string(u.GetUID()), Name: "vm-" + name, Cluster: "demo", Spec: []byte(`{"size":"small"}`),
	})
	require.NoError(f.t, err)
	f.Change(u, fake.WithField(i.ProviderID, "spec", "providerID"))
	return u
}

func (f *fleet) lose(name string) {
	f.t.Helper()
	require.NoError(f.t, f.Client.Delete(f.t.Context(), testenv.Object(f.kind.GVK, name)))
}

// pass is one more pass, after a quarter of an hour.
func (f *fleet) pass() guard.Report {
	f.t.Helper()
	f.clock.SetTime(f.clock.Now().Add(15 * time.Minute))
	r, err := f.c.Pass(f.t.Context())
	require.NoError(f.t, err)
	return r
}

func (f *fleet) instances() (running int) {
	f.t.Helper()
	all, err := f.cloud.List(f.t.Context(), provider.Request{Cluster: "demo"})
	require.NoError(f.t, err)
	for _, i := range all {
		if i.State != provider.Deleting {
			running++
		}
	}
	return running
}

func TestAnOrphanIsReportedInADryRunAndDeletedAfterConfirmations(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{false, true} {
		t.Run(fmt.Sprint(deletes), func(t *testing.T) {
			t.Parallel()
			metrics := guard.NewMetrics()
			f := newFleet(t, 3, func(f *fleet) { f.options.Delete, f.options.Metrics = deletes, metrics })
			f.lose("m-1")
			for pass := range 2 {
				r := f.pass()
				require.Len(t, r.Orphans, 1)
				require.Equal(t, pass+1, r.Orphans[0].Confirmations)
				require.Equal(t, "vm-m-1", r.Orphans[0].Name)
				require.Equal(t, "default/demo", r.Orphans[0].Cluster)
				require.NotEmpty(t, r.Orphans[0].Waits)
			}
			r := f.pass()
			require.Empty(t, r.Orphans[0].Waits)
			require.Equal(t, deletes, r.Orphans[0].Deleted)
			require.Equal(t, !deletes, r.DryRun)
			require.Contains(t, <-f.recorder.Events, "Warning OrphanInstanceFound Instance fake://2 has no Machine")
			if !deletes {
				require.Equal(t, 3, f.instances())
				require.Zero(t, f.cloud.Calls(provider.OpDelete))
				require.Empty(t, f.recorder.Events, "it is found once")
				return
			}
			require.Equal(t, 2, f.instances())
			require.Contains(t, <-f.recorder.Events, "Normal OrphanInstanceDeleted")
			require.Empty(t, f.pass().Orphans)
			require.Equal(t, 1, f.cloud.Calls(provider.OpDelete))
			require.InDelta(t, 0, gathered(t, metrics)["machinist_safety_orphan_instances fake"], 0)
		})
	}
}

// A manager of some namespaces neither asks about the clusters of others, nor says that something keeps it from deciding.
func TestNothingIsAskedOrDecidedAboutClustersThatOthersReconcile(t *testing.T) {
	t.Parallel()
	metrics := guard.NewMetrics()
	var asked []types.NamespacedName
	gate, _, _ := newGate(t, func(o *guard.GateOptions) {
		o.Workload = func(_ context.Context, key types.NamespacedName) error { asked = append(asked, key); return nil }
	})
	gate.Probe(t.Context())
	f := newFleet(t, 2, func(f *fleet) {
		f.options.Metrics, f.options.Gate = metrics, gate
		f.options.Reconciles = func(cluster types.NamespacedName) bool { return cluster.Namespace == "elsewhere" }
	})
	f.lose("m-1")
	for range 4 {
		r := f.pass()
		require.Empty(t, r.Orphans)
		require.Empty(t, r.Blocked)
	}
	require.Equal(t, 2, f.instances())
	gate.Probe(t.Context())
	require.Empty(t, asked)
	require.InDelta(t, 4, gathered(t, metrics)["machinist_safety_orphan_passes_total fake done"], 0)
}

// Gardener issue 657: a whole fleet was deleted after a restart, because the Machines were not known.
func TestAFleetIsNotDeletedWhileItsMachinesAreNotKnown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*fleet)
		says   string
	}{
		"the API server of the Machines does not answer": {func(f *fleet) {
			f.Store.Inject(fake.Fault{Match: fake.Match("list", f.kind.GVK.GroupKind(), ""), Times: -1,
				Err: apierrors.NewInternalError(errors.New("etcd is down"))})
		}, "the Machines could not be read"},
		"the provider lists a part and fails": {func(f *fleet) {
			f.lose("m-0")
			list := f.options.Calls.List
			f.options.Calls.List = func(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
				all, _ := list(ctx, r)
				return all, errors.New("the second page is missing")
			}
		}, "its instances could not be listed to the end"},
		"a Machine cannot be read": {func(f *fleet) {
			f.lose("m-0")
			f.Change(testenv.Object(f.kind.GVK, "m-1"), fake.WithField(int64(7), "spec", "providerID"))
		}, "the Machines could not be read"},
		"the gate is closed": {func(f *fleet) {
			f.lose("m-0")
			f.options.Gate, _, _ = newGate(f.t, nil)
		}, "unreachable"},
		"the Machines are read only after the instances": {func(f *fleet) {
			f.lose("m-0")
			calls := 0
			read := f.options.Sources[0]
			f.options.Sources[0] = func(ctx context.Context) ([]guard.Owner, error) {
				if calls++; calls%2 == 0 {
					return nil, apierrors.NewServiceUnavailable("the second list fails")
				}
				return read(ctx)
			}
		}, "the Machines could not be read"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 6, tc.change)
			for range 8 {
				f.clock.SetTime(f.clock.Now().Add(15 * time.Minute))
				r, _ := f.c.Pass(t.Context())
				require.Contains(t, fmt.Sprint(r.Blocked), tc.says)
			}
			require.Equal(t, 6, f.instances())
			require.Zero(t, f.cloud.Calls(provider.OpDelete))
		})
	}
}

func TestAProcessThatHasJustBegunToLeadConfirmsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, nil)
	f.lose("m-0")
	f.pass()
	f.pass()
	f.starts() // another process may have led since
	f.clock.SetTime(f.clock.Now().Add(5 * time.Minute))
	r, err := f.c.Pass(t.Context())
	require.NoError(t, err)
	require.Contains(t, r.Blocked[""], "the process has not run for 10m0s yet")
	require.Equal(t, 1, f.pass().Orphans[0].Confirmations, "what was seen before does not count")
	require.Equal(t, 3, f.instances())
}

// Gardener provider-aws issue 127.
func TestAnInstanceThatIsCreatedWhileAPassRunsIsKept(t *testing.T) {
	t.Parallel()
	n := 0
	var f *fleet
	f = newFleet(t, 3, func(f2 *fleet) {
		list := f2.options.Calls.List
		f2.options.Calls.List = func(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
			n++
			f.machine(fmt.Sprintf("new-%d", n)) // after the first read of the Machines
			return list(ctx, r)
		}
	})
	for range 6 {
		require.Empty(t, f.pass().Orphans)
	}
	require.Equal(t, 9, f.instances())
}

func TestInstancesBehindInfraMachinesBelongToThem(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0, nil)
	gvk := fake.InfraMachineGVK(contract.V1Beta2)
	f.Create(fake.CRD(gvk, contract.V1Beta2))
	kind := contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).ProvidedMachine)
	f.options.Sources = append(f.options.Sources, guard.InfraMachinesOf(f.Client, kind))
	var err error
	f.c, err = guard.NewCollector(f.options)
	require.NoError(t, err)
	f.starts()
	for _, name := range []string{"a", "b", "c"} {
		m, infra := testenv.Object(f.kind.GVK, name), testenv.Object(gvk, name)
		m.Object["spec"] = map[string]any{"clusterName": "demo"}
		infra.SetLabels(map[string]string{contract.ClusterNameLabel: "demo"})
		f.Create(m, infra)
		_, err := f.cloud.Create(t.Context(), provider.Request{
			Token: string(infra.GetUID()), Name: "vm-" + name, Cluster: "demo", Spec: []byte(`{"size":"small"}`),
		})
		require.NoError(t, err)
	}
	require.Empty(t, f.pass().Orphans)
	require.NoError(t, f.Client.Delete(t.Context(), testenv.Object(gvk, "b")))
	require.Len(t, f.pass().Orphans, 1)
}

func TestOneClusterThatCannotBeListedDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, func(f *fleet) {
		other := testenv.Object(f.kind.GVK, "other")
		other.Object["spec"] = map[string]any{"clusterName": "broken"}
		f.Create(other)
		list := f.options.Calls.List
		f.options.Calls.List = func(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
			if r.Cluster == "broken" {
				return nil, errors.New("no answer")
			}
			return list(ctx, r)
		}
		f.lose("m-0")
	})
	for range 3 {
		f.clock.SetTime(f.clock.Now().Add(15 * time.Minute))
		r, err := f.c.Pass(t.Context())
		require.ErrorContains(t, err, "list the instances of cluster default/broken: no answer")
		require.Contains(t, r.Blocked, "default/broken")
	}
	require.Equal(t, 2, f.instances())
}

func TestADeletionThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refusal error
		fails   bool
	}{
		"a lock is a failure":      {errors.New("it has a lock"), true},
		"a limit of calls is none": {&provider.Error{Class: provider.RateLimited, RetryAfter: time.Hour, Err: errors.New("later")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusal := tc.refusal
			f := newFleet(t, 3, func(f *fleet) {
				remove := f.options.Calls.Delete
				f.options.Calls.Delete = func(ctx context.Context, r provider.Request) (bool, error) {
					if refusal != nil {
						return false, refusal
					}
					return remove(ctx, r)
				}
				f.lose("m-0")
			})
			f.pass()
			f.pass()
			f.clock.SetTime(f.clock.Now().Add(15 * time.Minute))
			r, err := f.c.Pass(t.Context())
			require.Equal(t, tc.fails, err != nil, "%v", err)
			if tc.fails {
				require.ErrorContains(t, err, tc.refusal.Error())
			}
			require.NotEmpty(t, r.Orphans)
			for _, orphan := range r.Orphans {
				require.False(t, orphan.Deleted)
			}
			told := false
			for len(f.recorder.Events) > 0 {
				told = strings.Contains(<-f.recorder.Events, guard.EventOrphanNotDeleted) || told
			}
			require.Equal(t, tc.fails, told)
			refusal = nil
			require.True(t, f.pass().Orphans[0].Deleted)
		})
	}
}

func TestNewCollectorSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := guard.NewCollector(guard.CollectorOptions{Calls: provider.Calls{Name: "cloud"}})
	require.ErrorContains(t, err, "driver cloud cannot list its instances")
	_, err = guard.NewCollector(guard.CollectorOptions{Calls: provider.Of(fake.NewDriver(fake.DriverOptions{}))})
	require.ErrorContains(t, err, "every instance would be an orphan")
}

// A restored Machine has another UID: only its provider ID shows that the instance is its own.
func TestAMachineOfABackupOwnsItsInstanceByItsProviderID(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, nil)
	old := f.Get(testenv.Object(f.kind.GVK, "m-0"))
	f.lose("m-0")
	restored := testenv.Object(f.kind.GVK, "m-0")
	restored.Object["spec"] = old.Object["spec"]
	f.Create(restored)
	f.lose("m-1") // it may follow
	require.Contains(t, fmt.Sprint(f.pass().Blocked), "Machine m-0 was restored less than 1h0m0s ago")
	for range 8 {
		f.pass()
	}
	require.Equal(t, 3, f.instances(), "that of m-1 alone went")
	require.Equal(t, 1, f.cloud.Calls(provider.OpDelete))
}
