package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/noderef/cluster"
)

// protobufMagic begins what Kubernetes encodes as protobuf.
const protobufMagic = "k8s\x00"

// dryRun makes each write a server-side dry run: the API server admits, validates and answers it, and stores nothing. It stands between all
// clients of a configuration and the network, so that no client can go around it. What it cannot make a dry run it does not send.
type dryRun struct {
	next http.RoundTripper
	log  logr.Logger
}

// held returns a configuration whose writes are dry runs, if the flags say so.
func (o settings) held(cfg *rest.Config, log logr.Logger) *rest.Config {
	if !o.Safety.DryRun {
		return cfg
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &dryRun{next: next, log: log} })
	return cfg
}

// elects reports whether a Lease is needed.
func (o settings) elects() bool { return o.LeaderElection.Enabled && !o.Safety.DryRun }

// RoundTrip implements http.RoundTripper.
func (d *dryRun) RoundTrip(request *http.Request) (*http.Response, error) {
	if isRead(request) {
		return d.next.RoundTrip(request)
	}
	marked, err := markDryRun(request)
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("--dry-run: %s %s was not sent: %w", request.Method, request.URL.Path, err)
	}
	d.log.Info("dry run: a write is not stored", "method", request.Method, "path", request.URL.Path)
	return d.next.RoundTrip(marked)
}

// isRead reports whether a request stores nothing: a read, or a review, which asks with a POST which rights a user has.
func isRead(request *http.Request) bool {
	if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, request.Method) {
		return true
	}
	return request.Method == http.MethodPost && strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/") &&
		strings.HasSuffix(request.URL.Path, "reviews")
}

// isConnection reports whether a path leads through the API server to a Pod, a Node or a Service.
func isConnection(path string) bool {
	parts := strings.Split(path, "/")
	for i := range max(0, len(parts)-2) {
		if slices.Contains([]string{"pods", "nodes", "services"}, parts[i]) &&
			slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, parts[i+2]) {
			return true
		}
	}
	return false
}

// markDryRun returns a copy of a write that is a dry run.
func markDryRun(request *http.Request) (*http.Request, error) {
	if isConnection(request.URL.Path) {
		return nil, errors.New("a connection has no dry run")
	}
	marked := request.Clone(request.Context())
	query := marked.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	marked.URL.RawQuery = query.Encode()
	if request.Method != http.MethodDelete || request.Body == nil {
		return marked, nil
	}
	// The options of a delete are those of the query only if there is no body.
	body, err := io.ReadAll(request.Body)
	if err := errors.Join(err, request.Body.Close()); err != nil {
		return nil, err
	}
	if len(body) > 0 {
		if body, err = dryDeletion(body, request.Header.Get("Content-Type")); err != nil {
			return nil, err
		}
		marked.Header.Set("Content-Type", runtime.ContentTypeJSON)
		marked.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	marked.Body, marked.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	marked.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return marked, nil
}

// dryDeletion returns the options of a delete, as JSON, with a dry run.
func dryDeletion(body []byte, contentType string) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("content type %q: %w", contentType, err)
	}
	var options metav1.DeleteOptions
	switch kind {
	case runtime.ContentTypeJSON:
		err = json.Unmarshal(body, &options)
	case runtime.ContentTypeProtobuf:
		var message runtime.Unknown
		raw, ok := bytes.CutPrefix(body, []byte(protobufMagic))
		if !ok {
			return nil, errors.New("the options of the delete are no protobuf of Kubernetes")
		}
		if err = message.Unmarshal(raw); err == nil {
			err = options.Unmarshal(message.Raw)
		}
		options.TypeMeta = metav1.TypeMeta{APIVersion: message.APIVersion, Kind: message.Kind}
	default:
		return nil, fmt.Errorf("the options of the delete have the content type %s", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("the options of the delete cannot be read: %w", err)
	}
	options.DryRun = []string{metav1.DryRunAll}
	return json.Marshal(options)
}

// dryAccess makes writes in workload clusters dry runs.
type dryAccess struct {
	*cluster.Secrets

	o   settings
	log logr.Logger
}

// accessTo returns the access to workload clusters by kubeconfig Secrets.
func (o settings) accessTo(secrets *cluster.Secrets, log logr.Logger) cluster.Access {
	if !o.Safety.DryRun {
		return secrets
	}
	return &dryAccess{Secrets: secrets, o: o, log: log}
}

// Target implements cluster.Access.
func (a *dryAccess) Target(ctx context.Context, key types.NamespacedName) (cluster.Target, error) {
	target, err := a.Secrets.Target(ctx, key)
	if err == nil && target.Config != nil {
		target.Config = a.o.held(target.Config, a.log.WithValues("cluster", key.String()))
	}
	return target, err
}
