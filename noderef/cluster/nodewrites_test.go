package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/internal/patch"
)

func TestAChangedNodeIsDistinguishedFromOneThatIsGoneAndFromAFailure(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, tc := range map[string]struct {
		answer         error
		changed, fails bool
		says           string
	}{
		"accepted":      {},
		"conflict":      {answer: apierrors.NewConflict(nodes, "n", nil), changed: true},
		"test failed":   {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil), changed: true},
		"not connected": {answer: fmt.Errorf("no: %w", ErrNotConnected), changed: true},
		"gone":          {answer: apierrors.NewNotFound(nodes, "n")},
		"refused":       {answer: errors.New("no"), fails: true, says: "write Node n: no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent string
			w := Workload{Client: interceptor.NewClient(nil, interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
					body, err := patch.Data(obj)
					require.NoError(t, err)
					sent = fmt.Sprint(obj.GetName(), " ", patch.Type(), " ", string(body))
					obj.SetResourceVersion("8")
					obj.SetUID("u")
					return tc.answer
				},
			})}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7"}}
			through := patch.NewWriter(nil, nil)
			err := w.PatchNode(t.Context(), through, node, types.MergePatchType, []byte(`{}`))
			require.Equal(t, "n application/merge-patch+json {}", sent)
			require.Equal(t, tc.changed || tc.fails, err != nil)
			require.Equal(t, tc.changed, errors.Is(err, ErrNodeChanged))
			require.Equal(t, tc.answer == nil, through.Behind(node), "a write is remembered")
			if tc.says != "" {
				require.EqualError(t, err, tc.says)
			}
		})
	}
}
