package kwokdriver

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/machine/provider"
)

// CredentialsToken is the name of the bearer token among the Credentials of a Request.
const CredentialsToken = "token"

// NewClient returns a client for a Driver whose Requests have Credentials. It has none of its own: each of its requests has the token of
// the call that it belongs to, so that another token needs neither another client nor another connection.
func NewClient(cfg *rest.Config) (client.Client, error) {
	anonymous := rest.AnonymousClientConfig(cfg)
	anonymous.Transport, anonymous.WrapTransport = cfg.Transport, cfg.WrapTransport
	anonymous.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{next} })
	nodes := meta.NewDefaultRESTMapper(nil) // discovery belongs to no call
	nodes.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return client.New(anonymous, client.Options{Scheme: clientgoscheme.Scheme, Mapper: nodes})
}

// valuesKey is the key of the credentials in the context of a call. They are Values there, whose text form has no secret.
type valuesKey struct{}

// authorized returns the context for the requests of a call, which has ended when ctx has. What the Request has no Credentials for is done
// with those of the client.
func authorized(ctx context.Context, r provider.Request) (context.Context, error) {
	if err := ctx.Err(); err != nil || r.Credentials == nil {
		return ctx, err
	}
	values, err := r.Credentials.Read(ctx)
	switch {
	case errors.Is(err, provider.ErrNoCredentials):
		return ctx, &provider.Error{Class: provider.Unauthenticated, Err: err}
	case err != nil:
		return ctx, err
	case token(values) == "":
		return ctx, provider.Errorf(provider.Unauthenticated, "%s without a %s", values, CredentialsToken)
	}
	return context.WithValue(ctx, valuesKey{}, values), nil
}

// token returns the bearer token. Files, from which Secrets are made, often end with a newline.
func token(values provider.Values) string { return string(bytes.TrimSpace(values[CredentialsToken])) }

// bearer sends requests with the token of their context.
type bearer struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if values, found := req.Context().Value(valuesKey{}).(provider.Values); found {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token(values))
	}
	return b.next.RoundTrip(req)
}
