package cluster

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// credentials are a target and the transport with its credentials.
type credentials struct {
	Target
	transport http.RoundTripper
}

// try returns the credentials of a target, if the server accepts them.
func (l *link[T]) try(ctx context.Context, w *wire, target Target) (*credentials, error) {
	transport, err := w.transportFor(l.ownConfig(target))
	if err != nil {
		return nil, err
	}
	c := &credentials{Target: target, transport: transport}
	return c, l.probe(ctx, w, c)
}

// probe sends one request without client-go, which follows redirects to login pages and hides the status of a response that is not in a
// Kubernetes format. nil means that the server serves, also when it rejects this path or returns "retry later". The error matches
// errUnauthorized when the server rejects the credentials.
func (l *link[T]) probe(ctx context.Context, w *wire, c *credentials) error {
	limit := l.clusters.options.probeTimeout
	ctx, cancel := context.WithCancelCause(ctx)
	defer w.clock.AfterFunc(limit, func() { cancel(timeoutError(limit)) }).Stop()
	defer cancel(nil)
	server, _, err := rest.DefaultServerUrlFor(c.Config)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidKubeconfig, err)
	}
	path := l.clusters.options.ProbePath
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath(path).String(), nil)
	if err != nil {
		return err
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return err
	}
	_ = response.Body.Close()
	switch status := response.StatusCode; status {
	case http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests:
		w.markSeen()
		return nil
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: it answers %d %s at %s", errUnauthorized, status, http.StatusText(status), path)
	default:
		return fmt.Errorf("the API server answers %d %s at %s", status, http.StatusText(status), path)
	}
}
