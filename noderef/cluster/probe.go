package cluster

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// prober probes the API server of one wire. Its requests bypass the rate limits.
type prober struct {
	wire    *wire
	client  *rest.RESTClient
	path    string
	timeout time.Duration
}

func newProber(w *wire, base http.RoundTripper, config *rest.Config, path string, timeout time.Duration) (*prober, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	around, err := rest.HTTPWrappersForConfig(config, base)
	if err != nil {
		return nil, fmt.Errorf("%w: credentials: %w", errInvalidKubeconfig, err)
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{
		Transport: around,
		// A redirect may lead to a login page, which is not an API server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalidKubeconfig, err)
	}
	return &prober{wire: w, client: client, path: path, timeout: timeout}, nil
}

// probe sends one request. nil means that the server serves. The error matches errUnauthorized when the server refuses
// the credentials. The request is sent without client-go, which hides the status of an answer that is not in a Kubernetes
// format.
func (p *prober) probe(ctx context.Context) error {
	ctx, end := withLimit(ctx, p.wire.clock, p.timeout)
	defer end()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.client.Get().AbsPath(p.path).URL().String(), nil)
	if err != nil {
		return err
	}
	response, err := p.client.Client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return plain(err)
	}
	_ = response.Body.Close()
	a := reply{status: response.StatusCode, path: p.path, mediaType: response.Header.Get("Content-Type")}
	if !a.serves() {
		return &answerError{a}
	}
	p.wire.markSeen()
	return nil
}
