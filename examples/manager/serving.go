package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
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

// readers are those who may read a path: the API server knows the token of their request, and grants it to them. That is what
// controller-runtime's package metrics/filters does, which would add 24 modules to the go.mod of each project that embeds this library.
type readers struct {
	tokens authentication.TokenReviewInterface
	access authorization.SubjectAccessReviewInterface
}

// newReaders has a limit of requests even if the manager has none, because everybody can make it ask.
func newReaders(cfg *rest.Config, client *http.Client) (server.Filter, error) {
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
	r := readers{tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews()}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			code, err := r.judge(req)
			switch {
			case err != nil:
				log.Error(err, "a scrape cannot be judged")
				fallthrough
			case code != http.StatusOK:
				http.Error(w, http.StatusText(code), code)
			default:
				next.ServeHTTP(w, req)
			}
		}), nil
	}, nil
}

// judge returns the status of the answer to a request.
func (r readers) judge(req *http.Request) (int, error) {
	ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return http.StatusUnauthorized, nil
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := r.tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("review its token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: req.URL.Path, Verb: strings.ToLower(req.Method)},
	}}
	access, err = r.access.Create(ctx, access, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusInternalServerError, fmt.Errorf("review the access of %s: %w", user.Username, err)
	case !access.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
