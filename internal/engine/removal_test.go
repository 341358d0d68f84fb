package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestOnlyWhatIsOursAndWasReadIsRemoved(t *testing.T) {
	ref := contract.Ref{Group: "g", Kind: "Infra", Name: "m"}
	foreign := external.Object{Presence: external.Present, Ref: ref, Foreign: true}
	problem := external.Problem{Message: "no CRD"}
	for name, tc := range map[string]struct {
		found external.Object
		lost  string
		done  bool
		asks  string // what the API server is asked about: it is done when that is gone
		takes bool   // the object is deleted
		says  string
	}{
		"not referenced": {found: external.Object{Presence: external.NotReferenced}, done: true},
		"ours": {found: external.Object{Presence: external.Present, Ref: ref}, takes: true,
			says: "Waiting for Infra m to be deleted"},
		"another controller's": {found: foreign, done: true},
		"not in the cache": {found: external.Object{Ref: ref, Presence: external.Absent}, asks: "Thing default/m",
			says: "Infra m exists, but has not been seen yet"},
		"unread":                     {found: external.Object{Ref: ref, Presence: external.Unread}, says: "Infra m could not be read yet"},
		"unread, and a person knows": {found: external.Object{Ref: ref, Presence: external.Unread, Problem: problem}, says: "no CRD"},
		"its kind is gone and nothing was made": {
			found: external.Object{Ref: ref, Presence: external.KindMissing, Problem: problem},
			asks:  "CustomResourceDefinition /infras.g", says: "no CRD"},
		"its kind is gone and a machine may run": {
			found: external.Object{Ref: ref, Presence: external.KindMissing, Problem: problem},
			lost:  "a machine was made for this Machine and cannot be found without it",
			says:  "no CRD; a machine was made for this Machine and cannot be found without it"},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, gone %t", name, gone), func(t *testing.T) {
				b := newBench(t, true)
				u := b.create()
				var s scope
				require.NoError(t, engine.Begin(&s.Scope, b.frame, u))
				if tc.found.GVK.Kind = "Thing"; tc.found.Presence == external.Present {
					tc.found.GVK, tc.found.Object = u.GroupVersionKind(), u.DeepCopy()
				}
				asked := ""
				done, err := s.Remove(t.Context(), tc.found, engine.Removal{
					Reason: "Going", Lost: tc.lost, Deletions: new(engine.Deletions),
					Confirm: func(_ context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
						asked = gvk.Kind + " " + key.String()
						return gone, nil
					},
				})
				require.NoError(t, err)
				want := tc.done || (gone && tc.asks != "")
				require.Equal(t, want, done)
				require.Equal(t, tc.asks, asked)
				said, found := engine.Find(s.Asserted, contract.ConditionDeleting)
				require.Equal(t, !want, found)
				if found {
					require.Equal(t, []string{"Going", tc.says}, []string{said.Reason, said.Message})
				}
				require.Equal(t, tc.takes, apierrors.IsNotFound(b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u)))
			})
		}
	}
}

// A backup that is restored during a deletion brings objects back, with the UIDs that they had.
func TestAnObjectThatLivesOnAfterItsDeletionIsDeletedAgain(t *testing.T) {
	at := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		version string
		going   bool
		want    engine.Deletions
	}{
		"the cache is behind":      {version: "6", want: engine.Deletions{"a": {ResourceVersion: "7", At: at}}},
		"as it was deleted":        {version: "7", want: engine.Deletions{"a": {ResourceVersion: "7", At: at}}},
		"it is later":              {version: "8", want: engine.Deletions{}},
		"it is later, and deleted": {version: "8", going: true, want: engine.Deletions{"a": {ResourceVersion: "7", At: at}}},
		"it cannot be compared":    {version: "unreadable", want: engine.Deletions{"a": {ResourceVersion: "7", At: at}}},
	} {
		var requested engine.Deletions
		requested.Observe("a", tc.version, tc.going)
		requested.Add("a", "7", at)
		requested.Observe("b", "9", false)
		requested.Observe("a", tc.version, tc.going)
		require.Equal(t, tc.want, requested, name)
		require.Equal(t, len(tc.want) > 0, requested.Has("a"), name)
		requested.Add("b", "7", at)
		requested.Keep(func(uid types.UID) bool { return uid == "b" })
		require.Equal(t, engine.Deletions{"b": {ResourceVersion: "7", At: at}}, requested, name)
	}
}
