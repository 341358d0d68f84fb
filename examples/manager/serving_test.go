package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reviewAPI is an API server that knows two tokens, "prometheus" and "stranger", and lets prometheus get /metrics. It fails for others
// that are called "broken".
func reviewAPI(t *testing.T) *rest.Config {
	t.Helper()
	user := func(name string) authenticationv1.UserInfo {
		return authenticationv1.UserInfo{Username: name, UID: "u-" + name, Groups: []string{"g"},
			Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if json.NewDecoder(r.Body).Decode(&review) != nil || review.Spec.Token == "broken" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		switch review.Spec.Token {
		case "prometheus", "stranger":
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: user(review.Spec.Token)}
		default:
			review.Status.Error = "invalid bearer token"
		}
		answer(w, &review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if json.NewDecoder(r.Body).Decode(&review) != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		of := user("prometheus")
		review.Status.Allowed = cmp.Equal(review.Spec, authorizationv1.SubjectAccessReviewSpec{
			User: of.Username, UID: of.UID, Groups: of.Groups, Extra: map[string]authorizationv1.ExtraValue{"pod": {"p"}},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		})
		answer(w, &review)
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func answer(w http.ResponseWriter, review metav1.Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(review)
}

// scraped serves the metrics with some flags, and returns where.
func scraped(t *testing.T, flags ...string) string {
	t.Helper()
	address, cfg := freeAddresses(t, 1)[0], reviewAPI(t)
	o := given(t, append(flags, "--metrics-bind-address="+address)...)
	require.NoError(t, o.Serving.Free(t.Context()))
	client, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	metrics, err := server.NewServer(managerOptions(o, nil, logr.Discard()).Metrics, cfg, client)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- metrics.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return address
}

// scrape is one of Prometheus. It returns the status code and the version of HTTP.
func scrape(t *testing.T, url, authorization string, trusts *tls.Config) (code, protocol int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusts, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false, err
		}
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		code, protocol = response.StatusCode, response.ProtoMajor
		return true, response.Body.Close()
	})
	require.NoError(t, err)
	return code, protocol
}

func TestMetricsAreForThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	address := scraped(t)
	trusting := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as a ServiceMonitor does by default
	for what, c := range map[string]struct {
		authorization string
		want          int
	}{
		"no token":                             {"", http.StatusUnauthorized},
		"a password":                           {"Basic cHJvbWV0aGV1cw==", http.StatusUnauthorized},
		"an empty token":                       {"Bearer ", http.StatusUnauthorized},
		"an unknown token":                     {"Bearer unknown", http.StatusUnauthorized},
		"a token without the right":            {"Bearer stranger", http.StatusForbidden},
		"a token with the right":               {"Bearer prometheus", http.StatusOK},
		"a token with the right, written else": {"bearer  prometheus", http.StatusOK},
		"an API server that fails":             {"Bearer broken", http.StatusInternalServerError},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			code, protocol := scrape(t, "https://"+address+"/metrics", c.authorization, trusting)
			require.Equal(t, c.want, code)
			require.Equal(t, 1, protocol, "no HTTP/2")
		})
	}
	code, _ := scrape(t, "http://"+address+"/metrics", "Bearer prometheus", nil)
	require.Equal(t, http.StatusBadRequest, code, "plain HTTP")
}

func TestMetricsArePlainByAFlag(t *testing.T) {
	t.Parallel()
	address := scraped(t, "--metrics-secure=false")
	code, _ := scrape(t, "http://"+address+"/metrics", "", nil)
	require.Equal(t, http.StatusOK, code)
}

func TestMetricsHaveTheCertificateOfAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, err := certutil.GenerateSelfSignedCertKey("metrics.example.com", nil, nil)
	require.NoError(t, err)
	missing := given(t, "--metrics-bind-address=:0", "--metrics-cert-path", dir)
	require.ErrorContains(t, missing.Serving.Free(t.Context()), fmt.Sprintf("--metrics-cert-path %s: open %s/tls.crt", dir, dir))
	unserved := given(t, "--metrics-bind-address=0", "--metrics-cert-path", dir)
	require.NoError(t, unserved.Serving.Free(t.Context()), "nothing is served")
	replace := func(cert, key []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	}
	trusting := func(cert []byte) *tls.Config {
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(cert))
		return &tls.Config{RootCAs: roots, ServerName: "metrics.example.com", MinVersion: tls.VersionTLS12}
	}
	replace(cert, key)
	address := scraped(t, "--metrics-cert-path", dir)
	code, _ := scrape(t, "https://"+address+"/metrics", "Bearer prometheus", trusting(cert))
	require.Equal(t, http.StatusOK, code)
	cert, key, err = certutil.GenerateSelfSignedCertKey("metrics.example.com", nil, nil)
	require.NoError(t, err)
	replace(cert, key)
	code, _ = scrape(t, "https://"+address+"/metrics", "Bearer prometheus", trusting(cert)) // until it has read the new pair
	require.Equal(t, http.StatusOK, code)
}

func TestAGrant(t *testing.T) {
	t.Parallel()
	request := func(token string) *http.Request {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		req.Header.Set("Authorization", "Bearer "+token)
		return req
	}
	for name, c := range map[string]struct {
		token   string
		ago     time.Duration // since the grant
		down    bool          // the API server does not answer
		granted int           // without another grant, the code of the answer
	}{
		"holds without a request":                     {"stranger", time.Second, false, http.StatusOK},
		"is reviewed after a while":                   {"stranger", 2 * time.Minute, false, http.StatusForbidden},
		"lasts while the API server does not answer":  {"prometheus", 10 * time.Minute, true, http.StatusOK},
		"does not last for ever":                      {"prometheus", 20 * time.Minute, true, http.StatusInternalServerError},
		"that was never given is not given in outage": {"prometheus", 0, true, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := reviewAPI(t)
			if c.down {
				cfg.Host = "http://127.0.0.1:1"
			}
			client, err := rest.HTTPClientFor(cfg)
			require.NoError(t, err)
			r, err := readersOf(cfg, client)
			require.NoError(t, err)
			if c.ago > 0 {
				r.granted[sha256.Sum256([]byte("GET /metrics "+c.token))] = time.Now().Add(-c.ago)
			}
			code, _, _ := r.judge(request(c.token))
			require.Equal(t, c.granted, code)
		})
	}
}

func TestTheRightToReviewTokensIsForMetricsThatNeedIt(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]bool{
		"":                         true,
		"--metrics-secure=false":   false,
		"--metrics-bind-address=0": false,
	} {
		args := []string{"--print-rbac"}
		if flags != "" {
			args = append(args, flags)
		}
		rights := rightsOf(t, args...)
		for _, resource := range []string{"authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews"} {
			if want {
				require.Equal(t, []string{"create"}, rights[resource], flags)
			} else {
				require.NotContains(t, rights, resource, flags)
			}
		}
	}
}
