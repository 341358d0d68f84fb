package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// readyLimit is generous, because two cores may be busy with several builds and tests.
	readyLimit   = 3 * time.Minute
	readyPoll    = 50 * time.Millisecond
	probeTimeout = 5 * time.Second
	// probeAgent is the user agent of the probes, of which only the one for the ServiceAccount is in the audit log.
	probeAgent = "machinist-controlplane-probe"
)

// probeURL is where a component reports that it is ready.
func (cp *ControlPlane) probeURL(c Component) string {
	switch c {
	case Etcd:
		return "https://" + hostPort(cp.ports.etcd) + "/health"
	case APIServer:
		return "https://" + hostPort(cp.ports.apiServer) + "/readyz"
	case ControllerManager:
		return "https://" + hostPort(cp.ports.controllerManager) + "/healthz"
	case Scheduler:
		return "https://" + hostPort(cp.ports.scheduler) + "/readyz"
	default:
		return "http://" + hostPort(cp.ports.kwok) + "/healthz"
	}
}

// newProber makes the HTTP client of the probes. It keeps no connection, since one to a killed component would
// only be found out by the next probe.
func newProber(l *layout) (*http.Client, error) {
	pair, err := l.ca.client("probe", "system:masters")
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		return nil, fmt.Errorf("load the probe's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(l.ca.cert)
	return &http.Client{
		Timeout: probeTimeout,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true,
		},
	}, nil
}

// waitReady returns nil when the address answers with 200, and an error with the end of p's log when p ends
// before that or time is up.
func (cp *ControlPlane) waitReady(ctx context.Context, p *process, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %v", readyLimit))
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		probeErr := cp.probe(ctx, url)
		if probeErr == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.death()
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; last answer: %w; the end of its log:\n%s",
				p.component, context.Cause(ctx), probeErr, logTail(p.logFile))
		case <-ticker.C:
		}
	}
}

func (cp *ControlPlane) probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", probeAgent)
	response, err := cp.prober.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status + " " + strings.TrimSpace(string(body)))
	}
	return nil
}
