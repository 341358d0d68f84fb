package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// answers is a client that gives the same answer to each read.
func answers(uid string, err error) client.WithWatch {
	return interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			obj.SetName(key.Name)
			obj.SetUID(types.UID(uid))
			return err
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err },
	})
}

// lists answers a get with an error, and a list with Nodes, whatever its selector.
func lists(err error, names ...string) client.WithWatch {
	return interceptor.NewClient(answers("", err), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			nodes, _ := list.(*corev1.NodeList)
			for _, name := range names {
				nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			return nil
		},
	})
}

func TestIsGone(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n")
	bare := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "nodes"}, "n", "404 page not found", 0, true)
	const unknown = "make sure that Node n is gone: the server could not find the requested resource (get nodes n)"
	isStill := func(node *corev1.Node) bool { return node.Name == "n" && node.UID == "recorded" }
	for name, tc := range map[string]struct {
		workload Workload
		gone     bool
		problem  string
	}{
		"it exists":                {Workload{Client: answers("recorded", nil)}, false, ""},
		"another one has its name": {Workload{Client: answers("other", nil)}, true, ""},
		"it does not exist":        {Workload{Client: answers("", notFound)}, true, ""},
		"the request fails": {
			Workload{Client: answers("", errors.New("no"))}, false, "make sure that Node n is gone: no"},
		"the API server is asked, if known":          {Workload{Client: answers("", notFound), APIReader: answers("recorded", nil)}, false, ""},
		"nothing is at the path, and no list has it": {Workload{Client: lists(bare), APIReader: lists(bare, "m", "o")}, true, ""},
		"nothing is at the path, and a list has it":  {Workload{Client: lists(bare, "n")}, false, unknown},
		"nothing is at any path":                     {Workload{Client: answers("", bare)}, false, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			gone, err := tc.workload.IsGone(t.Context(), "n", isStill)
			require.Equal(t, tc.gone, gone)
			if tc.problem == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tc.problem)
			}
		})
	}
}

// stub is a client that can be compared.
type stub struct {
	client.Client

	of string
}

func TestAWorkloadWithoutAClientUsesThatOfTheObjects(t *testing.T) {
	own, theirs := &stub{of: "the Nodes"}, &stub{of: "the objects"}
	require.Equal(t, Workload{Client: theirs, APIReader: theirs}, Workload{}.Or(theirs, theirs))
	require.Equal(t, Workload{Client: theirs, APIReader: own}, Workload{APIReader: own}.Or(theirs, theirs))
	require.Equal(t, Workload{Client: own}, Workload{Client: own}.Or(theirs, theirs), "its API server is another one")
}

// noted is a Drainer, a Volumes and a namespaceReader that notes which Nodes are released.
type noted struct {
	Drainer
	Volumes

	released []string
	labels   error
}

func (n *noted) Release(node string) { n.released = append(n.released, node) }

func (n *noted) NamespaceLabels(context.Context) (drain.NamespaceLabels, error) {
	return func(string) (map[string]string, bool) { return nil, true }, n.labels
}

func TestANodeIsReleasedByTheDrainerAndByTheVolumes(t *testing.T) {
	one, two := &noted{}, &noted{}
	w := Workload{Drainer: one, Volumes: two}
	w.Release("n")
	w.Release("")
	require.Equal(t, []string{"n"}, one.released)
	require.Equal(t, []string{"n"}, two.released)
	require.NotPanics(t, func() { Workload{}.Release("n") })
}

func TestLabelsOfNamespacesThatAreNotListedAreUnread(t *testing.T) {
	for name, tc := range map[string]struct {
		drainer Drainer
		unread  bool
		fails   bool
	}{
		"listed":           {drainer: &noted{}},
		"not listed yet":   {drainer: &noted{labels: runner.ErrNotListed}, unread: true, fails: true},
		"not known at all": {drainer: struct{ Drainer }{&noted{}}, fails: true},
		"no drainer":       {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Workload{Drainer: tc.drainer}.NamespaceLabels(t.Context())
			require.Equal(t, tc.fails, err != nil)
			require.Equal(t, tc.unread, errors.Is(err, ErrNotSynced))
		})
	}
}

func TestRightsAreThoseOfWhatAWorkloadIsUsedFor(t *testing.T) {
	has := func(rules []rbacv1.PolicyRule) map[string]bool {
		found := map[string]bool{}
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					found[verb+" "+resource] = true
				}
			}
		}
		return found
	}
	reads := map[string]bool{"get nodes": true, "list nodes": true, "watch nodes": true}
	if diff := cmp.Diff(reads, has(WorkloadPolicyRules(WorkloadWiring{}))); diff != "" {
		t.Errorf("without drains (-want +got):\n%s", diff)
	}
	drains := has(WorkloadPolicyRules(WorkloadWiring{Drains: true}))
	for verb := range has(runner.PolicyRules()) {
		require.True(t, drains[verb], verb)
	}
	require.True(t, drains["watch volumeattachments"])
	require.False(t, drains["list namespaces"])
	namespaces := WorkloadPolicyRules(WorkloadWiring{Namespaces: true})
	require.True(t, has(namespaces)["list namespaces"])
	require.Equal(t, contract.MergePolicyRules(namespaces), namespaces, "each rule once")
}

func TestAWorkloadRecognizesItsObjects(t *testing.T) {
	for name, c := range map[string]struct {
		is, recorded types.UID
		other        bool
	}{
		"the same cluster":        {"a", "a", false},
		"another cluster":         {"a", "b", true},
		"nothing is recorded":     {"a", "", false},
		"the identity is unknown": {"", "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, object := Workload{UID: c.is}, &contract.Metadata{Annotations: map[string]string{UIDAnnotation: string(c.recorded)}}
			err := w.Recognize(object)
			require.Equal(t, c.other, IsUnread(err))
			require.Equal(t, c.other, err != nil)
			w.Record(object, func(key string, to contract.Change[string]) {
				require.Equal(t, UIDAnnotation, key)
				object.Annotations[key], _ = to.Value()
			})
			require.NoError(t, w.Recognize(object))
		})
	}
}
