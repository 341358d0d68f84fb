package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// prober asks the API server of one wire whether it is ready to serve, past the gate and past rate limits.
type prober struct {
	wire    *wire
	client  *rest.RESTClient
	path    string
	timeout time.Duration
	clock   clock.WithDelayedExecution
}

func newProber(w *wire, config *rest.Config, path string, timeout time.Duration) (*prober, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	around, err := rest.HTTPWrappersForConfig(config, w.base)
	if err != nil {
		return nil, fmt.Errorf("%w: credentials: %w", ErrInvalidKubeconfig, err)
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{
		Transport: around,
		// A login page at the end of a redirect is no API server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidKubeconfig, err)
	}
	return &prober{wire: w, client: client, path: path, timeout: timeout, clock: w.clock}, nil
}

// probe makes one request. nil means that the server serves: it answered OK, or knows the caller and refuses just this path,
// or asks for patience. ErrUnauthorized is matched when it refuses the credentials.
func (p *prober) probe(ctx context.Context) error {
	ctx, end := p.limit(ctx)
	defer end()
	var status int
	result := p.client.Get().AbsPath(p.path).MaxRetries(0).Do(ctx).StatusCode(&status)
	switch status {
	case http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests:
		p.wire.heard()
		return nil
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case 0:
		err := result.Error()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return plain(err)
	default:
		return &answerError{status: status, path: p.path}
	}
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

// version returns the resource version at which the server stands, from a consistent list of one object at most.
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

// answerError is an answer that a ready API server does not give.
type answerError struct {
	status int
	path   string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("the API server answers %d %s at %s", e.status, http.StatusText(e.status), e.path)
}
