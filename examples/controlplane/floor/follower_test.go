package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
	"github.com/machinist-dev/machinist/fake"
)

// machinesOf is a request for Machines, as the audit log has it.
func machinesOf(verb, name, subresource, sent string) cluster.AuditEvent {
	e := cluster.AuditEvent{
		Verb: verb, Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines", Subresource: subresource,
		Namespace: "default", Name: name,
	}
	if sent != "" {
		e.Sent = json.RawMessage(sent)
	}
	return e
}

func TestTheFloorMakesTheSameRequestsAndChangesNothing(t *testing.T) {
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}})
	require.NoError(t, store.Client().Create(t.Context(), fake.Machine("m")))
	before := len(store.Requests())
	f := &follower{client: store.Client()}
	var input strings.Builder
	lines := json.NewEncoder(&input)
	for _, r := range []cluster.AuditEvent{
		machinesOf("get", "m", "", ""), machinesOf("patch", "m", "", `{"metadata":{"labels":{"a":"b"}}}`),
		machinesOf("patch", "m", "status", `{"status":{"phase":"Running"}}`), machinesOf("delete", "m", "", ""),
		machinesOf("create", "", "", `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"n","namespace":"default"}}`),
		machinesOf("delete", "gone", "", ""),
		machinesOf("list", "", "", ""),                  // the cache makes it
		{Verb: "update", Resource: "leases", Name: "l"}, // for leader election
		{Verb: "get", URI: "/api"},
	} {
		require.NoError(t, lines.Encode(r))
	}
	made, err := f.all(t.Context(), strings.NewReader(input.String()))
	require.NoError(t, err)
	require.Equal(t, counted{sent: 6, failed: 1}, made)
	verbs := map[string]int{}
	for _, r := range store.Requests()[before:] {
		verbs[r.Verb]++
		require.False(t, r.IsWrite(), "%+v", r)
	}
	require.Equal(t, map[string]int{"get": 1, "patch": 2, "delete": 2, "create": 1}, verbs)
}

func TestTheFloorRefusesWhatIsNoRequest(t *testing.T) {
	_, err := (&follower{}).all(t.Context(), strings.NewReader("no request\n"))
	require.Error(t, err)
}
