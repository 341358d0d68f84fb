package machinepool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

const poolGroup = "cluster.x-k8s.io"

// restored is a Machine of an InfraMachine without owners, as after a restore from a backup.
func restored(change ...func(*contract.MachineState)) *contract.MachineState {
	m := &contract.MachineState{}
	m.Infrastructure = contract.Ref{Group: "infrastructure.cluster.x-k8s.io", Kind: "FakeMachine", Name: "a"}
	m.Key, m.UID, m.ResourceVersion = types.NamespacedName{Namespace: testPool.Namespace, Name: "m"}, "m-uid", "7"
	m.Labels = map[string]string{contract.PoolNameLabel: testPool.Name, contract.ClusterNameLabel: "c", "more": ""}
	for _, do := range change {
		do(m)
	}
	return m
}

// withInfra are the Machines of a pool with one InfraMachine.
func withInfra() *machines {
	return &machines{infra: map[string]infraMachine{"a": {Ours: true}},
		gvk: schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "FakeMachine"}}
}

func TestWhichMachinesAPoolAdopts(t *testing.T) {
	owner := func(apiVersion, kind, name string, controls bool) func(*contract.MachineState) {
		return func(m *contract.MachineState) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "other", Controller: new(controls)}}
		}
	}
	labelled := func(key, value string) func(*contract.MachineState) {
		return func(m *contract.MachineState) { m.Labels[key] = value }
	}
	for name, tc := range map[string]struct {
		change func(*contract.MachineState)
		want   bool
	}{
		"without owners":                {change: func(*contract.MachineState) {}, want: true},
		"an owner without a say":        {change: owner("v1", "ConfigMap", "x", false), want: true},
		"the pool is an owner of it":    {change: owner(poolGroup+"/v1beta1", "MachinePool", "pool", false), want: true},
		"another controls it":           {change: owner(poolGroup+"/v1beta2", "MachineSet", "set", true)},
		"labels of another pool":        {change: labelled(contract.PoolNameLabel, "b")},
		"labels of another cluster":     {change: labelled(contract.ClusterNameLabel, "b")},
		"without labels":                {change: func(m *contract.MachineState) { m.Labels = nil }},
		"no InfraMachine of the pool":   {change: func(m *contract.MachineState) { m.Infrastructure.Name = "b" }},
		"an InfraMachine of other kind": {change: func(m *contract.MachineState) { m.Infrastructure.Kind = "Other" }},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{listing: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{UID: "pool-uid"}}}})
			p.State.ClusterName = "c"
			for _, deleting := range []time.Time{{}, actingNow} {
				p.State.Deleting = deleting
				adopts, err := p.adopts(t.Context(), withInfra(), restored(tc.change))
				require.NoError(t, err)
				require.Equal(t, tc.want, adopts)
			}
			adopts, err := p.adopts(t.Context(), &machines{gvk: withInfra().gvk}, restored(tc.change))
			require.NoError(t, err)
			require.False(t, adopts, "before the first list has come back")
		})
	}
}

func TestWhichInfraMachinesAreThePools(t *testing.T) {
	owned := func(kind, name string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "infrastructure.cluster.x-k8s.io/v1", Kind: kind, Name: name}})
		}
	}
	labelled := func(u *unstructured.Unstructured) { u.SetLabels(restored().Labels) }
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   infraMachine
	}{
		"it has the labels": {labelled, infraMachine{Ours: true, Wanted: true}},
		"it has the labels, and is being deleted": {func(u *unstructured.Unstructured) {
			labelled(u)
			u.SetDeletionTimestamp(&metav1.Time{Time: actingNow})
		}, infraMachine{Ours: true}},
		"it has lost its labels": {owned("FakeMachinePool", "infra"), infraMachine{Ours: true}},
		"another owns it":        {owned("FakeMachinePool", "other"), infraMachine{}},
		"another kind owns it":   {owned("FakeMachineSet", "infra"), infraMachine{}},
		"another's labels, and ours by owner": {func(u *unstructured.Unstructured) {
			owned("FakeMachinePool", "infra")(u)
			u.SetLabels(map[string]string{contract.PoolNameLabel: "another", contract.ClusterNameLabel: "c"})
		}, infraMachine{}},
		"without labels and owner": {func(*unstructured.Unstructured) {}, infraMachine{}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{})
			p.State.ClusterName, p.infrastructure = "c", refTo(external.Present)
			infra, m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"providerID": "p://1"}}}, machines{}
			noID := &unstructured.Unstructured{Object: map[string]any{}}
			tc.change(infra)
			tc.change(noID)
			p.readInfraMachines(map[string]*unstructured.Unstructured{"a": infra, "without-id": noID}, &m)
			require.Equal(t, tc.want, m.infra["a"])
			require.Equal(t, sets.New(map[bool][]string{true: {"p://1"}}[tc.want.Ours]...), m.instances)
		})
	}
}

func TestAMachineIsAdoptedOnlyAsItWasReadAndNotWhileItIsBeingDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		same, goes bool
		want       int
	}{"it is there": {same: true, want: 1}, "it is being deleted": {same: true, goes: true}, "the pool is another by now": {}} {
		t.Run(name, func(t *testing.T) {
			uid := map[bool]types.UID{true: "pool-uid", false: "another"}[tc.same]
			a := &api{listing: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{UID: uid}}}}
			p, _ := acting(t, a)
			state, obj := restored(), &unstructured.Unstructured{}
			if tc.goes {
				state.Deleting = actingNow
			}
			p.State.ClusterName = "c"
			obj.SetUID(state.UID)
			obj.SetResourceVersion(state.ResourceVersion)
			obj.SetLabels(state.Labels)
			p.machines = withInfra()
			adopts, err := p.adopts(t.Context(), p.machines, state)
			require.NoError(t, err)
			require.Equal(t, tc.same, adopts)
			if adopts {
				p.machines.own = append(p.machines.own, machineOf(state, obj))
			}
			require.NoError(t, p.labelMachines(t.Context()))
			require.Len(t, a.patched, tc.want)
			for _, body := range a.patched {
				require.Contains(t, body, `"resourceVersion":"7"`)
				require.Contains(t, body, `"ownerReferences":[{`)
				require.Contains(t, body, `"uid":"pool-uid"`)
			}
		})
	}
}

func TestADeletionWaitsForMachinesThatMayBeThePools(t *testing.T) {
	labelled := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", Labels: restored().Labels}}
	for _, known := range []bool{false, true} {
		p, _ := acting(t, &api{listing: []metav1.PartialObjectMetadata{labelled}})
		p.State.ClusterName, p.infrastructure, p.machineKind = "c", refTo(external.Present), "FakeMachine"
		if known {
			p.machines.infra = map[string]infraMachine{}
		}
		done, err := p.deleteAllMachines(t.Context())
		require.NoError(t, err)
		require.Equal(t, known, done)
	}
}
