package kwokdriver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

// server is an API server over a store that accepts one token, and counts connections.
func server(t *testing.T, token *atomic.Value) (cfg *rest.Config, connections *atomic.Int64) {
	t.Helper()
	behind, connections := fake.NewStore(fake.Options{}).RESTConfig(), &atomic.Int64{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+fmt.Sprint(token.Load()) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.URL.Scheme, r.URL.Host, r.RequestURI = "http", "store.invalid", ""
		answer, err := behind.Transport.RoundTrip(r)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
		_ = answer.Body.Close()
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, BearerToken: "of another", QPS: -1, ContentConfig: behind.ContentConfig}, connections
}

func TestEachCallHasTheTokenOfItsRequest(t *testing.T) {
	t.Parallel()
	var accepted, has atomic.Value
	accepted.Store("first")
	has.Store("first\n")
	cfg, connections := server(t, &accepted)
	c, err := kwokdriver.NewClient(cfg)
	require.NoError(t, err)
	driver, r := kwokdriver.New(c, 0), request("uid-1", "m1")
	_, err = driver.Create(t.Context(), r)
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err), "nobody: the token of the configuration is that of another")
	r.Credentials = func(context.Context) (provider.Values, error) {
		return provider.Values{"token": []byte(fmt.Sprint(has.Load()))}, nil
	}
	made, err := driver.Create(t.Context(), r)
	require.NoError(t, err)
	accepted.Store("second")
	_, err = driver.Get(t.Context(), r)
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))
	require.NotContains(t, err.Error(), "first")
	has.Store("second")
	again, err := driver.Create(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, made, again)
	require.EqualValues(t, 1, connections.Load(), "another token needs no other connection")
	r.Credentials = nil
	_, err = driver.Get(t.Context(), r)
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err), "no token is kept")
}

func TestTheDriverWithCredentialsPassesTheConformanceSuite(t *testing.T) {
	t.Parallel()
	var accepted atomic.Value
	accepted.Store("s3cret")
	cfg, _ := server(t, &accepted)
	c, err := kwokdriver.NewClient(cfg)
	require.NoError(t, err)
	var n atomic.Int64
	credentials := func(context.Context) (provider.Values, error) { return provider.Values{"token": []byte("s3cret")}, nil }
	env := provider.Conformance{
		Driver: kwokdriver.New(c, 0), Request: provider.Request{Cluster: "conformance", Spec: []byte(`{"cpu":"2"}`), Credentials: credentials},
		Token: func() string { return fmt.Sprint("token-", n.Add(1)) }, Limit: time.Minute, Pause: time.Millisecond, Invalid: []byte(`{"cpu":"many"}`),
	}
	for _, c := range provider.Cases() {
		require.NoError(t, c.Run(t.Context(), env), "%s, because %s", c.Name, c.Reason)
	}
}
