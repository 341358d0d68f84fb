package pass_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
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
		want  pass.Removal
		says  string
	}{
		"not referenced":       {found: external.Object{Presence: external.NotReferenced}, want: pass.RemovalDone},
		"ours":                 {found: ours, want: pass.RemovalDelete, says: "Waiting for Infra m to be deleted"},
		"another controller's": {found: foreign, want: pass.RemovalDone},
		"not in the cache": {found: external.Object{Ref: ref, Presence: external.Absent}, want: pass.RemovalConfirm,
			says: "Infra m exists, but has not been seen yet"},
		"unread": {found: external.Object{Ref: ref, Presence: external.Unread}, want: pass.RemovalWait,
			says: "Infra m could not be read yet"},
		"unread, and a person knows": {found: external.Object{Ref: ref, Presence: external.Unread, Problem: problem}, want: pass.RemovalWait,
			says: "no CRD"},
		"its kind is gone and nothing was made": {
			found: external.Object{Ref: ref, Presence: external.KindMissing, Problem: problem}, want: pass.RemovalConfirmKind, says: "no CRD"},
		"its kind is gone and a machine may run": {
			found: external.Object{Ref: ref, Presence: external.KindMissing, Problem: problem},
			lost:  "a machine was made for this Machine and cannot be found without it", want: pass.RemovalWait,
			says: "no CRD; a machine was made for this Machine and cannot be found without it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, says := pass.DecideRemoval(tc.found, tc.lost)
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
		want    pass.Deletions
	}{
		"the cache is behind":      {version: "6", want: pass.Deletions{"a": {ResourceVersion: "7", At: at}}},
		"as it was deleted":        {version: "7", want: pass.Deletions{"a": {ResourceVersion: "7", At: at}}},
		"it is later":              {version: "8", want: pass.Deletions{}},
		"it is later, and deleted": {version: "8", going: true, want: pass.Deletions{"a": {ResourceVersion: "7", At: at}}},
		"it cannot be compared":    {version: "unreadable", want: pass.Deletions{"a": {ResourceVersion: "7", At: at}}},
	} {
		var requested pass.Deletions
		requested.Observe("a", tc.version, tc.going)
		requested.Add("a", "7", at)
		requested.Observe("b", "9", false)
		requested.Observe("a", tc.version, tc.going)
		require.Equal(t, tc.want, requested, name)
		require.Equal(t, len(tc.want) > 0, requested.Has("a"), name)
		requested.Add("b", "7", at)
		requested.Keep(func(uid types.UID) bool { return uid == "b" })
		require.Equal(t, pass.Deletions{"b": {ResourceVersion: "7", At: at}}, requested, name)
	}
}
