package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/machinist-dev/machinist/contract"
)

func TestTheEndOfCertificatesIsKnownFromTheMachineOrItsBootstrapConfiguration(t *testing.T) {
	t.Parallel()
	const text, otherText = "2027-01-31T12:00:00+01:00", "2028-01-01T00:00:00Z"
	at, other := time.Date(2027, 1, 31, 11, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
	wrong := func(of, value string) string {
		return "the annotation machine.cluster.x-k8s.io/certificates-expiry of the " + of + " is \"" + value +
			"\": want an RFC 3339 time such as 2027-01-31T12:00:00Z"
	}
	said := contract.Some[string]
	for name, tc := range map[string]struct {
		facts certificateFacts
		want  certificateDecision
	}{
		"a worker is left as it is": {facts: certificateFacts{Machine: said(text), Stored: other}, want: certificateDecision{Expire: other}},
		"the Machine says it":       {facts: certificateFacts{ControlPlane: true, Machine: said(text)}, want: certificateDecision{Expire: at}},
		"the configuration says it": {facts: certificateFacts{ControlPlane: true, Config: said(text)}, want: certificateDecision{Expire: at}},
		"the Machine goes first": {facts: certificateFacts{ControlPlane: true, Machine: said(text), Config: said(otherText)},
			want: certificateDecision{Expire: at}},
		"it is not reported any more": {facts: certificateFacts{ControlPlane: true, Stored: other}},
		"the configuration was not read": {
			facts: certificateFacts{ControlPlane: true, Stored: other, ConfigUnread: true}, want: certificateDecision{Expire: other}},
		"the Machine says what is no time": {
			facts: certificateFacts{ControlPlane: true, Machine: said("soon"), Config: said(text), Stored: other},
			want:  certificateDecision{Expire: other, Problem: wrong("Machine", "soon")}},
		"the configuration says what is no time": {
			facts: certificateFacts{ControlPlane: true, Config: said("")}, want: certificateDecision{Problem: wrong("KubeadmConfig c", "")}},
		"it says it at length": {
			facts: certificateFacts{ControlPlane: true, Machine: said(strings.Repeat("x", 300))},
			want:  certificateDecision{Problem: wrong("Machine", strings.Repeat("x", maxQuotedLength)+" ...")}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.MachineKind, tc.facts.ConfigName = "Machine", "KubeadmConfig c"
			if diff := cmp.Diff(tc.want, decideCertificates(tc.facts)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
