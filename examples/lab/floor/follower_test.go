package floor

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// machinesOf is a request for Machines, as the audit log has it.
func machinesOf(verb, name, subresource, sent string) cluster.AuditEvent {
	e := cluster.AuditEvent{
		Verb: verb, Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines", Subresource: subresource,
		Namespace: "default", Name: name, Code: http.StatusOK,
	}
	if sent != "" {
		e.Sent = json.RawMessage(sent)
	}
	return e
}

// with is a request with another answer than 200.
func with(code int, r cluster.AuditEvent) cluster.AuditEvent {
	r.Code = code
	return r
}

func TestTheFloorMakesTheSameRequests(t *testing.T) {
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}})
	m := fake.Machine("m")
	require.NoError(t, store.Client().Create(t.Context(), m))
	before := len(store.Requests())
	f := &follower{client: store.Client(), live: store.Client()}
	var input strings.Builder
	lines := json.NewEncoder(&input)
	for _, r := range []cluster.AuditEvent{
		machinesOf("get", "m", "", ""), machinesOf("patch", "m", "", `{"metadata":{"labels":{"a":"b"}}}`),
		machinesOf("patch", "m", "status", `{"status":{"phase":"Running"}}`),
		with(404, machinesOf("patch", "gone", "", `{}`)),
		with(409, machinesOf("delete", "m", "", `{"preconditions":{"uid":"another"}}`)),
		with(201, machinesOf("create", "", "",
			`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"n","namespace":"default"}}`)),
		machinesOf("delete", "gone", "", `{}`),          // the other has deleted something
		machinesOf("list", "", "", ""),                  // the cache makes it
		{Verb: "update", Resource: "leases", Name: "l"}, // for leader election
		{Verb: "get", URI: "/api"},
	} {
		require.NoError(t, lines.Encode(r))
	}
	made, err := f.all(t.Context(), strings.NewReader(input.String()))
	require.NoError(t, err)
	require.Equal(t, counted{sent: 7, failed: 1}, made, "what the other was refused is no failure")
	verbs := map[string]int{}
	for _, r := range store.Requests()[before:] {
		verbs[r.Verb]++
	}
	require.Equal(t, map[string]int{"get": 1, "patch": 3, "delete": 2, "create": 1}, verbs)
	require.NoError(t, store.Client().Get(t.Context(), client.ObjectKeyFromObject(m), m))
	require.Equal(t, "b", m.GetLabels()["a"])
}

func TestTheFloorRefusesWhatIsNoRequest(t *testing.T) {
	_, err := (&follower{}).all(t.Context(), strings.NewReader("no request\n"))
	require.Error(t, err)
}
