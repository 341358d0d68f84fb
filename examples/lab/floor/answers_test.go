package floor

import (
	"testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// answered is what the audit log has about a write.
func answered(verb, uri string, code int, answer string) cluster.AuditEvent {
	return cluster.AuditEvent{Verb: verb, URI: uri, Resource: "any", Code: code, Answer: []byte(answer)}
}

func TestAFloorGetsTheAnswersThatTheManagerGot(t *testing.T) {
	a := startAnswers()
	t.Cleanup(a.server.Close)
	file, err := a.kubeconfig(t.TempDir())
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}})
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: store.Client().RESTMapper()})
	require.NoError(t, err)

	const machine = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/m"
	for _, e := range []cluster.AuditEvent{
		answered("patch", "/api/v1/nodes/n?fieldManager=x", 200, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"1"}}`),
		answered("patch", machine+"/status", 409, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Conflict","code":409}`),
		answered("patch", machine+"/status", 200,
			`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"m","namespace":"default","uid":"2"}}`),
		answered("delete", machine, 200, `{"apiVersion":"v1","kind":"Status","status":"Success"}`),
	} {
		require.True(t, a.keep(e), "%s", e)
	}
	require.False(t, a.keep(answered("get", machine, 200, `{}`)), "reads are no writes")
	require.False(t, a.keep(answered("patch", machine, 200, "")), "an answer that is not known")

	patch := client.RawPatch(types.MergePatchType, []byte(`{}`))
	node := &corev1.Node{}
	node.Name = "n"
	require.NoError(t, c.Patch(t.Context(), node, patch))
	require.EqualValues(t, "1", node.UID, "in the encoding of Kubernetes' own types")
	m := fake.Machine("m")
	require.True(t, apierrors.IsConflict(c.Status().Patch(t.Context(), m, patch)), "equal requests get their answers in turn")
	require.NoError(t, c.Status().Patch(t.Context(), m, patch))
	require.EqualValues(t, "2", m.GetUID())
	require.NoError(t, c.Delete(t.Context(), m))
	require.Error(t, c.Patch(t.Context(), node, patch), "each answer is sent once")
	require.Error(t, c.Create(t.Context(), &unstructured.Unstructured{Object: fake.Machine("n").Object}))
}
