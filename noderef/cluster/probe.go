package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// prober probes the API server of one wire. Its requests bypass the gate and the rate limits.
type prober struct {
	wire    *wire
	client  *rest.RESTClient
	path    string
	timeout time.Duration
	clock   clock.WithDelayedExecution
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
	return &prober{wire: w, client: client, path: path, timeout: timeout, clock: w.clock}, nil
}

// probe sends one request. nil means that the server serves, see judge. The error matches errUnauthorized when the
// server refuses the credentials.
func (p *prober) probe(ctx context.Context) error {
	ctx, end := p.limit(ctx)
	defer end()
	a, err := p.ask(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return plain(err)
	}
	if judge(a) == down || judge(a) == unauthorized {
		return &answerError{a}
	}
	p.wire.markSeen()
	return nil
}

// ask sends the request itself, because client-go hides the status of an answer that is not in a Kubernetes format.
func (p *prober) ask(ctx context.Context) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.client.Get().AbsPath(p.path).URL().String(), nil)
	if err != nil {
		return reply{}, err
	}
	response, err := p.client.Client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, sniffedBytes))
	return reply{status: response.StatusCode, path: p.path, mediaType: response.Header.Get("Content-Type"), body: body}, err
}

// limit ends a request after the timeout.
func (p *prober) limit(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := p.clock.AfterFunc(p.timeout, func() { cancel(timeoutError(p.timeout)) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// version returns the current resource version of the server, from a consistent list of one object at most.
func (p *prober) version(ctx context.Context, path string) (string, error) {
	ctx, end := p.limit(ctx)
	defer end()
	body, err := p.client.Get().AbsPath(path).Param("limit", "1").MaxRetries(0).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
	}
	err = json.Unmarshal(body, &list)
	return list.Metadata.ResourceVersion, err
}
