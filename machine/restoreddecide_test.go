package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract/pass"
)

// The process lives on when a backup of the management cluster is restored, which has the infrastructure in the version that was deleted.
func TestInfrastructureThatARestoreBroughtBackIsDeletedAgain(t *testing.T) {
	first, asked := time.Unix(1000, 0), 0
	server := interceptor.NewClient(nil, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			asked++
			return nil
		},
	})
	e := present("Infra")
	e.Object.SetUID("u")
	e.Object.SetResourceVersion("7")
	for name, passes := range map[string][]time.Time{
		"a pass has found the Machine running": {first, {}, first.Add(time.Hour)},
		"no pass has":                          {first, first.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			s := attached(&Scope{
				Scope: base{Now: first},
				env:   testReconciler(testKind(), Ports{Ports: pass.Ports{Client: server, Cache: holdsNothing{}}}, Options{}),
			})
			for i, requestedAt := range passes {
				s.State.Deleting = requestedAt
				s.env.begin(t.Context(), s)
				if requestedAt.IsZero() {
					continue
				}
				require.Equal(t, i > 0 && passes[i-1].Equal(requestedAt), s.isGoing(e))
				require.NoError(t, s.deleteExternal(t.Context(), e))
				s.env.begin(t.Context(), s)
				require.True(t, s.isGoing(e), "the same deletion")
			}
			require.Equal(t, 2, asked)
		})
	}
}

func TestWhatIsRememberedOfADeletionEndsWithIt(t *testing.T) {
	first := time.Unix(1000, 0)
	for name, next := range map[string]time.Time{"none": {}, "another": first.Add(time.Second)} {
		m, object := &recollection{}, goneObject{name: types.NamespacedName{Name: "o"}}
		m.observeDeletion(first)
		m.setGone(object)
		m.requested.Add("u", "7", first)
		m.drained, m.detached, m.attempt = "drained", "detached", &nodeAttempt{}
		m.observeDeletion(first.Local())
		require.Equal(t, []any{true, true, types.UID("drained"), types.UID("detached"), true},
			[]any{m.isGone(object), m.requested.Has("u"), m.drained, m.detached, m.attempt != nil}, name)
		m.observeDeletion(next)
		require.Equal(t, ofDeletion{requestedAt: next}, m.ofDeletion, name)
		require.Zero(t, testing.AllocsPerRun(10, func() { m.observeDeletion(next) }), name)
	}
}
