package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	said := func(text string) map[string]string {
		return map[string]string{contract.CertificatesExpiryAnnotation: text}
	}
	for name, tc := range map[string]struct {
		stored          time.Time
		machine, config map[string]string
		unread          bool
		want            time.Time
		problem         string
	}{
		"the Machine says it":            {machine: said(text), want: at},
		"the configuration says it":      {config: said(text), want: at},
		"the Machine goes first":         {machine: said(text), config: said(otherText), want: at},
		"it is not reported any more":    {stored: other},
		"the configuration was not read": {stored: other, unread: true, want: other},
		"the Machine says what is no time": {
			machine: said("soon"), config: said(text), stored: other, want: other, problem: wrong("Machine", "soon")},
		"the configuration says what is no time": {config: said(""), problem: wrong("bootstrap configuration", "")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decideCertificates(tc.stored, tc.machine, tc.config, tc.unread)
			require.Equal(t, tc.want, got)
			if tc.problem == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.problem)
		})
	}
}

func TestCertificatesStep(t *testing.T) {
	t.Run("a worker is left as it is", func(t *testing.T) {
		s := &Scope{}
		s.State.CertificatesExpire = time.Unix(1, 0)
		s.State.Annotations = map[string]string{contract.CertificatesExpiryAnnotation: "2027-01-31T12:00:00Z"}
		_, err := certificatesStep(t.Context(), s)
		require.NoError(t, err)
		require.True(t, s.Update.CertificatesExpire.Keeps())
	})
}
