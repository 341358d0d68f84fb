package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/manager/options"
)

// metricsOptions serve /metrics as the projects of kubebuilder do: by HTTPS, without HTTP/2, to those who may read it.
func metricsOptions(s options.Serving) server.Options {
	if !s.MetricsSecure {
		return server.Options{BindAddress: s.MetricsAddress}
	}
	return server.Options{
		BindAddress: s.MetricsAddress, SecureServing: true, CertDir: s.MetricsCertPath, FilterProvider: newReaders,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
}

// metricsRules are the rights for that.
func (o settings) metricsRules() []rbacv1.PolicyRule {
	if !o.Serving.MetricsSecure || o.Serving.MetricsAddress == options.Disabled {
		return nil
	}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{authenticationv1.GroupName}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{authorizationv1.GroupName}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
}

// reviewTimeout limits what the API server is asked for one scrape.
const reviewTimeout = 10 * time.Second

// A grant holds for grantHolds without another request, so that nobody's requests delay a scrape, and for grantLasts while the API server
// does not answer: then the metrics are needed most.
const grantHolds, grantLasts = time.Minute, 15 * time.Minute

// readers are those who may read a path: the API server accepts the token of their request, and grants them the path. That is what
// controller-runtime's package metrics/filters does, which would add 24 modules to the go.mod of each project that embeds this library.
type readers struct {
	tokens authentication.TokenReviewInterface
	access authorization.SubjectAccessReviewInterface

	mu      sync.Mutex
	granted map[[sha256.Size]byte]time.Time // when requests were granted, by the hash of their token, method and path
}

// hasGrant reports whether a request was granted within some time.
func (r *readers) hasGrant(request [sha256.Size]byte, within time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, found := r.granted[request]
	return found && time.Since(at) < within
}

// record stores that a request is granted now, or is not, and forgets grants that are over.
func (r *readers) record(request [sha256.Size]byte, granted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.granted, func(other [sha256.Size]byte, at time.Time) bool {
		return other == request || time.Since(at) >= grantLasts
	})
	if granted {
		r.granted[request] = time.Now()
	}
}

// readersOf has a limit of requests even if the manager has none, because everybody can make it ask.
func readersOf(cfg *rest.Config, client *http.Client) (*readers, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst, cfg.RateLimiter = rest.DefaultQPS, rest.DefaultBurst, nil
	tokens, err := authentication.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, err
	}
	access, err := authorization.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, err
	}
	granted := map[[sha256.Size]byte]time.Time{}
	return &readers{tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(), granted: granted}, nil
}

// newReaders returns the filter of a server of metrics.
func newReaders(cfg *rest.Config, client *http.Client) (server.Filter, error) {
	r, err := readersOf(cfg, client)
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		failures := rate.Sometimes{First: 1, Interval: 10 * time.Second} // everybody can cause one
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			code, why, err := r.judge(req)
			if err != nil {
				failures.Do(func() { log.Error(err, "A request for metrics cannot be judged") })
			}
			if code != http.StatusOK {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, http.StatusText(code)+": "+why, code)
				return
			}
			next.ServeHTTP(w, req)
		}), nil
	}, nil
}

// judge returns the status of the answer to a request, and why it is refused.
func (r *readers) judge(req *http.Request) (code int, why string, err error) {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return http.StatusUnauthorized, "send a token of the API server: Authorization: Bearer TOKEN", nil
	}
	request := sha256.Sum256([]byte(req.Method + " " + req.URL.Path + " " + token))
	if r.hasGrant(request, grantHolds) {
		return http.StatusOK, "", nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	code, why, err = r.review(ctx, token, &authorizationv1.NonResourceAttributes{Path: req.URL.Path, Verb: strings.ToLower(req.Method)})
	if err == nil {
		r.record(request, code == http.StatusOK)
	} else if r.hasGrant(request, grantLasts) {
		code = http.StatusOK
	}
	return code, why, err
}

// review asks the API server whose a token is, and whether they may do something.
func (r *readers) review(ctx context.Context, token string, do *authorizationv1.NonResourceAttributes) (code int, why string, err error) {
	const failed = "the API server does not answer, see the log of the manager"
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if review, err = r.tokens.Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return http.StatusInternalServerError, failed, fmt.Errorf("review its token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, "the API server does not accept the token", nil
	}
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, NonResourceAttributes: do,
	}}
	access, err = r.access.Create(ctx, access, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusInternalServerError, failed, fmt.Errorf("review the access of %s: %w", user.Username, err)
	case !access.Status.Allowed:
		why = fmt.Sprintf("%s may not %s %s: bind a ClusterRole that grants this URL", user.Username, do.Verb, do.Path)
		return http.StatusForbidden, why, nil
	}
	return http.StatusOK, "", nil
}
