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

	"github.com/machinist-dev/machinist/internal/external"
)

func TestAChangedNodeIsDistinguishedFromOneThatIsGoneAndFromAFailure(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, tc := range map[string]struct {
		answer        error
		changed, gone bool
		says          string
	}{
		"accepted":      {},
		"conflict":      {answer: apierrors.NewConflict(nodes, "n", nil), changed: true},
		"test failed":   {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil), changed: true},
		"not connected": {answer: fmt.Errorf("no: %w", ErrNotConnected), changed: true},
		"gone":          {answer: apierrors.NewNotFound(nodes, "n"), gone: true},
		"refused":       {answer: errors.New("no"), says: "write Node n: no"},
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
					return tc.answer
				},
			})}
			target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			err := w.PatchNode(t.Context(), target, types.MergePatchType, []byte(`{}`))
			require.Equal(t, "n application/merge-patch+json {}", sent)
			require.Equal(t, tc.answer == nil, err == nil)
			require.Equal(t, tc.changed, errors.Is(err, ErrNodeChanged))
			require.Equal(t, tc.gone, external.SaysGone(err))
			require.Equal(t, "8", target.ResourceVersion, "it is filled with the answer")
			if tc.says != "" {
				require.EqualError(t, err, tc.says)
			}
		})
	}
}
