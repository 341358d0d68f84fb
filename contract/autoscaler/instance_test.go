package autoscaler_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
)

func TestInstanceOf(t *testing.T) {
	const failure = `failureMessage: quota, phase: Failed`
	const node = `nodeRef: {kind: Node, name: node-a}`
	tests := map[string]struct {
		deleting     bool
		spec, status string
		want         autoscaler.Instance
		counts       bool
	}{
		"a Machine with a Node runs": {spec: `providerID: example://1`, status: node, counts: true,
			want: autoscaler.Instance{ID: "example://1", State: autoscaler.InstanceRunning}},
		"a Node reference of contract v1beta2 has no kind": {spec: `providerID: example://1`, status: `nodeRef: {name: node-a}`, counts: true,
			want: autoscaler.Instance{ID: "example://1", State: autoscaler.InstanceRunning}},
		"without a Node it is pending, also with a provider ID": {spec: `providerID: example://1`,
			want: autoscaler.Instance{ID: "pending-machine-default_m", State: autoscaler.InstanceCreating}},
		"without anything it is pending": {want: autoscaler.Instance{ID: "pending-machine-default_m", State: autoscaler.InstanceCreating}},
		"without a provider ID the Node is asked": {status: node, counts: true,
			want: autoscaler.Instance{NodeName: "node-a", State: autoscaler.InstanceRunning}},
		"an empty provider ID is none": {spec: `providerID: ""`, status: node, counts: true,
			want: autoscaler.Instance{NodeName: "node-a", State: autoscaler.InstanceRunning}},
		"a reference to something else is not listed": {status: `nodeRef: {kind: Pod, name: node-a}`},
		"a reference without a name is not listed":    {status: `nodeRef: {kind: Node}`},
		"a Machine that is being deleted": {deleting: true, spec: `providerID: example://1`, status: node,
			want: autoscaler.Instance{ID: "deleting-machine-default_m", State: autoscaler.InstanceDeleting}},
		"a Machine that failed to become a Node": {spec: `providerID: example://1`, status: failure,
			want: autoscaler.Instance{ID: "failed-machine-default_m", State: autoscaler.InstanceCreating, ErrorCode: autoscaler.ProvisioningFailed}},
		"a Machine that failed later is not spoken about": {spec: `providerID: example://1`, status: failure + ", " + node,
			want: autoscaler.Instance{ID: "failed-machine-default_m"}},
		"a failed Machine that is being deleted": {deleting: true, status: failure + ", " + node,
			want: autoscaler.Instance{ID: "failed-machine-default_m", State: autoscaler.InstanceDeleting, ErrorCode: autoscaler.DeletingFailed}},
		"a message alone is no failure": {spec: `providerID: example://1`, status: `failureMessage: quota, phase: Running, ` + node, counts: true,
			want: autoscaler.Instance{ID: "example://1", State: autoscaler.InstanceRunning}},
		"a phase alone is no failure": {status: `phase: Failed`,
			want: autoscaler.Instance{ID: "pending-machine-default_m", State: autoscaler.InstanceCreating}},
		"the empty message is a message": {status: `phase: Failed, failureMessage: ""`,
			want: autoscaler.Instance{ID: "failed-machine-default_m", State: autoscaler.InstanceCreating, ErrorCode: autoscaler.ProvisioningFailed}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			machine := parse(t, `{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, metadata: {namespace: default, name: m}, spec: {`+
				tc.spec+`}, status: {`+tc.status+`}}`)
			if tc.deleting {
				machine = with(t, machine, "metadata/deletionTimestamp", "2026-01-01T00:00:00Z")
			}
			got, err := autoscaler.InstanceOf(machine)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.counts, got.CountsAsNode())
		})
	}
}

func TestInstanceOf_NamesWhatItCannotRead(t *testing.T) {
	tests := map[string]struct {
		place []string
		err   string
	}{
		"a message": {place: []string{"status", "failureMessage"},
			err: "Machine default/m: status.failureMessage: want string, found integer"},
		"a phase":     {place: []string{"status", "phase"}, err: "Machine default/m: status.phase: want string, found integer"},
		"a reference": {place: []string{"status", "nodeRef"}, err: "Machine default/m: status.nodeRef: want object, found integer"},
		"a kind": {place: []string{"status", "nodeRef", "kind"},
			err: "Machine default/m: status.nodeRef.kind: want string, found integer"},
		"a name": {place: []string{"status", "nodeRef", "name"},
			err: "Machine default/m: status.nodeRef.name: want string, found integer"},
		"a provider ID": {place: []string{"spec", "providerID"}, err: "Machine default/m: spec.providerID: want string, found integer"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			machine := parse(t, `{apiVersion: v1, kind: Machine, metadata: {namespace: default, name: m}, status: {nodeRef: {}}}`)
			require.NoError(t, unstructured.SetNestedField(machine.Object, int64(7), tc.place...))
			_, err := autoscaler.InstanceOf(machine)
			require.EqualError(t, err, tc.err)
			require.ErrorIs(t, err, contract.ErrWrongType)
		})
	}
}

func TestMachineOf_TakesMadeUpIDsApart(t *testing.T) {
	tests := map[string]struct {
		id   string
		want types.NamespacedName
		ok   bool
	}{
		"deleting": {id: "deleting-machine-default_a", want: types.NamespacedName{Namespace: "default", Name: "a"},
			ok: true},
		"failed": {id: "failed-machine-default_a", want: types.NamespacedName{Namespace: "default", Name: "a"}, ok: true},
		"pending": {id: "pending-machine-default_a", want: types.NamespacedName{Namespace: "default", Name: "a"},
			ok: true},
		"the first underscore separates": {id: "pending-machine-default_a_b", want: types.NamespacedName{Namespace: "default", Name: "a_b"},
			ok: true},
		"a real ID": {id: "example://pending-machine-default_a"},
		"nothing":   {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key, ok := autoscaler.MachineOf(tc.id)
			require.Equal(t, tc.want, key)
			require.Equal(t, tc.ok, ok)
		})
	}
}

func TestInstanceState_String(t *testing.T) {
	for state, want := range map[autoscaler.InstanceState]string{autoscaler.InstanceUnknown: "unknown", autoscaler.InstanceRunning: "running",
		autoscaler.InstanceCreating: "creating", autoscaler.InstanceDeleting: "deleting", 9: "InstanceState(9)"} {
		require.Equal(t, want, state.String())
	}
}
