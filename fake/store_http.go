package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// transport answers HTTP requests from a store, in the caller's goroutine.
type transport struct {
	store  *Store
	lagged bool
}

// call is a parsed API request.
type call struct {
	Request
	ctx      context.Context //nolint:containedctx // of the request
	view     *view
	query    url.Values
	body     []byte
	metadata bool
	lagged   bool
	lost     bool // the response will be lost
	noted    bool // already in the log of requests
}

func (c *call) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	s := t.store
	if s.registry.err != nil {
		return nil, s.registry.err
	}
	s.mu.RLock()
	answer, found := s.discover(req.URL.Path)
	c, parsed := s.parse(req, body)
	s.mu.RUnlock()
	switch {
	case found:
		return success(req, http.StatusOK, answer), nil
	case req.URL.Path == "/readyz": // the probe of noderef/cluster
		return response(req, http.StatusOK, "text/plain; charset=utf-8", []byte("ok")), nil
	case !parsed:
		return response(req, http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n")), nil
	}
	c.lagged = t.lagged
	if c.metadata, err = negotiate(req.Header.Get("Accept")); err != nil {
		return failure(req, err), nil
	}
	return s.answer(req, c)
}

func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }()
	return io.ReadAll(req.Body)
}

// answer applies faults to a call and records it.
func (s *Store) answer(req *http.Request, c *call) (*http.Response, error) {
	fault, failing := s.requests.fault(c.Request)
	if failing && !(fault.Lose && c.Verb != "watch") {
		return s.fail(req, c, fault.Err)
	}
	c.lost = failing
	resp, err := s.serve(req, c)
	if err != nil {
		resp = failure(req, err)
	}
	if failing {
		return s.fail(req, c, fault.Err)
	}
	if !c.noted {
		c.Code = resp.StatusCode
		s.requests.add(c.Request)
	}
	return resp, nil
}

func (s *Store) fail(req *http.Request, c *call, err error) (*http.Response, error) {
	var resp *http.Response
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		resp, err = failure(req, err), nil
		c.Code = resp.StatusCode
	}
	s.requests.add(c.Request)
	return resp, err
}

// parse reads verb, kind, namespace and name from a request. The caller holds the lock.
func (s *Store) parse(req *http.Request, body []byte) (*call, bool) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gv.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, false
	}
	c := &call{ctx: req.Context(), query: req.URL.Query(), body: body}
	c.UserAgent = req.Header.Get("User-Agent")
	if len(parts) >= 3 && parts[0] == "namespaces" {
		if v := s.registry.views[gv.WithResource(parts[2])]; v != nil && v.namespaced {
			c.Namespace, parts = parts[1], parts[2:]
		}
	}
	c.view = s.registry.views[gv.WithResource(parts[0])]
	if c.view == nil || len(parts) > 3 {
		return nil, false
	}
	c.GVK = c.view.gvk
	if len(parts) > 1 {
		c.Name = parts[1]
	}
	if len(parts) > 2 {
		c.Subresource = parts[2]
	}
	known := c.findVerb(req)
	c.DryRun = c.isDryRun()
	return c, known
}

// isDryRun reports whether a call is a dry run. For a delete with a body only the body counts; for an eviction also its delete options.
func (c *call) isDryRun() bool {
	requested := c.query["dryRun"]
	body := struct {
		DryRun        []string
		DeleteOptions metav1.DeleteOptions
	}{}
	switch {
	case len(c.body) == 0:
	case c.Verb == "delete" || c.Verb == "deletecollection":
		_ = json.Unmarshal(c.body, &body) // a bad body is reported later
		requested = body.DryRun
	case c.Subresource == "eviction":
		_ = json.Unmarshal(c.body, &body)
		requested = append(requested, body.DeleteOptions.DryRun...)
	}
	return slices.Contains(requested, metav1.DryRunAll)
}

func (c *call) findVerb(req *http.Request) bool {
	named := c.Name != ""
	switch req.Method {
	case http.MethodGet:
		c.Verb = c.reading(named)
		return true
	case http.MethodPost:
		c.Verb = "create"
		if !named {
			name := metav1.PartialObjectMetadata{}
			_ = json.Unmarshal(c.body, &name) // a bad body is reported later
			c.Name = name.Name
		}
		return named == (c.Subresource != "")
	case http.MethodPut:
		c.Verb = "update"
	case http.MethodPatch:
		c.Verb = "patch"
		contentType, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
		c.PatchType = types.PatchType(contentType)
	case http.MethodDelete:
		c.Verb = "delete"
		if !named {
			c.Verb = "deletecollection"
		}
		return true
	default:
		return false
	}
	return named
}

func (c *call) reading(named bool) string {
	watching := c.query.Get("watch")
	switch {
	case watching == "true" || watching == "1":
		return "watch"
	case named:
		return "get"
	default:
		return "list"
	}
}

// negotiate returns the first accepted format that the store supports: JSON, whole or as metadata.
func negotiate(accept string) (metadata bool, err error) {
	if accept == "" {
		return false, nil
	}
	for option := range strings.SplitSeq(accept, ",") {
		media, params, _ := strings.Cut(strings.TrimSpace(option), ";")
		if media != runtime.ContentTypeJSON && media != "*/*" && media != "application/*" {
			continue
		}
		switch {
		case strings.Contains(params, "as=PartialObjectMetadata"):
			return true, nil
		case !strings.Contains(params, "as=") && !strings.Contains(params, "stream="):
			return false, nil
		}
	}
	return false, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: application/json",
	}}
}

// notServed returns the error for an unknown path, as on a real server.
func notServed() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, true)
}

func success(req *http.Request, code int, body []byte) *http.Response {
	return response(req, code, runtime.ContentTypeJSON, body)
}

// failure encodes an error as a Status; one that is not an API error has code 500 and no reason, as on a real server.
func failure(req *http.Request, err error) *http.Response {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	resp := success(req, int(status.Code), encoded(status))
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return resp
}

func response(req *http.Request, code int, contentType string, body []byte) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{contentType}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}
