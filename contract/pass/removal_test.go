package pass_test

import (
	"testing"

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
