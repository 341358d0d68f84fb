package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestOnlyWhatIsOursAndWasReadIsRemoved(t *testing.T) {
	ref := contract.Ref{Group: "g", Kind: "Infra", Name: "m"}
	ours := external.Object{Presence: external.Present, Ref: ref}
	foreign := ours
	foreign.Foreign = true
	problem := external.Problem{Message: "no CRD"}
	for name, tc := range map[string]struct {
		found external.Object
		lost  string
		want  engine.Removal
		says  string
	}{
		"not referenced":       {found: external.Object{Presence: external.NotReferenced}, want: engine.RemovalDone},
		"ours":                 {found: ours, want: engine.RemovalDelete, says: "Waiting for Infra m to be deleted"},
		"another controller's": {found: foreign, want: engine.RemovalDone},
		"not in the cache": {found: external.Object{Ref: ref, Presence: external.Absent}, want: engine.RemovalConfirm,
			says: "Infra m exists, but has not been seen yet"},
		"unread": {found: external.Object{Ref: ref, Presence: external.Unread}, want: engine.RemovalWait,
			says: "Infra m could not be read yet"},
		"unread, and a person knows": {found: external.Object{Ref: ref, Presence: external.Unread, Problem: problem}, want: engine.RemovalWait,
			says: "no CRD"},
		"its kind is gone and nothing was made": {
			found: external.Object{Ref: ref, Presence: external.KindMissing, Problem: problem}, want: engine.RemovalConfirmKind, says: "no CRD"},
		"its kind is gone and a machine may run": {
			found: external.Object{Ref: ref, Presence: external.KindMissing, Problem: problem},
			lost:  "a machine was made for this Machine and cannot be found without it", want: engine.RemovalWait,
			says: "no CRD; a machine was made for this Machine and cannot be found without it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, says := engine.DecideRemoval(tc.found, tc.lost)
			if got != tc.want || says != tc.says {
				t.Errorf("want %d %q, got %d %q", tc.want, tc.says, got, says)
			}
		})
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
