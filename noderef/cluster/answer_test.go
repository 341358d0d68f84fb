package cluster

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestTheStatusOfAProbeDecidesWhatItMeans(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		reason Reason
		says   string
	}{
		"refused credentials": {401, ReasonUnauthorized, "401 Unauthorized at /readyz"},
		"a refused path":      {403, "", ""},
		"too much to do":      {429, "", ""},
		"an unknown path":     {404, ReasonUnreachable, "404 Not Found at /readyz"},
		"a redirect":          {302, ReasonUnreachable, "302 Found at /readyz"},
		"a proxy that wants credentials of its own": {407, ReasonUnreachable, "407 Proxy Authentication Required at /readyz"},
		"a breakdown": {500, ReasonUnreachable, "500 Internal Server Error at /readyz"},
	} {
		for _, mediaType := range []string{"", "text/plain", "text/html"} {
			t.Run(name+" "+mediaType, func(t *testing.T) {
				w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
				s.answerAsProxy(mediaType)
				s.refuse("GET /readyz", tc.status)
				w.reach(keyA, s)
				if tc.reason == "" {
					w.connected(keyA)
					return
				}
				err := w.becomes(keyA, tc.reason)
				require.ErrorContains(t, err, tc.says)
				if tc.status == http.StatusUnauthorized {
					require.ErrorIs(t, err, errUnauthorized)
				}
			})
		}
	}
}

func TestAPageDoesNotProveThatANodeIsAbsent(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	w.reach(keyA, s)
	access := Workload{Client: w.connected(keyA).Cluster.GetClient(), APIReader: w.get(keyA).Cluster.GetAPIReader()}
	isStill := func(*corev1.Node) bool { return true }
	gone, err := access.IsGone(t.Context(), "n1", isStill)
	require.NoError(t, err)
	require.True(t, gone, "the API server itself says so")
	s.answerAsProxy("text/html")
	s.refuse("GET /api/v1/nodes", 404)
	gone, err = access.IsGone(t.Context(), "n1", isStill)
	require.Error(t, err)
	require.False(t, gone)
}
