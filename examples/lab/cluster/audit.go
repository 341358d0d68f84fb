package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// ErrNoAudit is matched when the audit log of a control plane with Options.NoAudit is read.
var ErrNoAudit = errors.New("the audit log is turned off")

// Audit reads the API server's audit log. Its methods are safe for concurrent use.
//
// There is one event per request, except health probes: for a watch when it begins, for other requests when they are
// answered. The API server writes the event before the response ends, so the event of an answered request exists.
// Requests that are refused before auditing, such as those with an unknown client certificate, have no event.
type Audit struct {
	path string
	off  bool
}

// Audit returns the reader of the audit log. It stays usable while the API server is down, until Stop.
func (cp *ControlPlane) Audit() *Audit { return &Audit{path: cp.path(auditLog), off: cp.opts.NoAudit} }

// AuditMark is a place in the audit log. The zero value is its beginning.
type AuditMark struct{ offset int64 }

// AuditEvent is the audit event of one request.
type AuditEvent struct {
	Received time.Time // when the API server received the request, to the microsecond
	// UserAgent is the client's full user agent, such as "kwok/v0.8.0 (linux/amd64)".
	UserAgent string
	// User is the name of the authenticated user.
	User string
	// Verb is the verb of the Kubernetes API: get, list, watch, create, update, patch, delete, deletecollection;
	// for a path that is no resource, the HTTP method in lower case.
	Verb string
	// Group, Version, Resource and Subresource are empty for a path that is no resource.
	Group, Version, Resource, Subresource string
	// Namespace and Name are empty if the request had none; a create has a name only if the client sent one.
	Namespace, Name string
	// URI is the request's path and query.
	URI string
	// Code is the HTTP status of the answer; of a watch, when it began.
	Code int
	// DryRun means that the request was a dry run.
	DryRun bool
	// Sent and Answer are the bodies of a write to a resource of Options.AuditObjects, as JSON; otherwise nil.
	Sent, Answer json.RawMessage
}

// IsWrite reports whether the request was made to change an object: any create, update, patch or delete that is not a
// dry run, whatever the answer. An eviction is a create of pods/eviction. Access and token reviews, which are created
// but not stored, are not writes.
func (e AuditEvent) IsWrite() bool {
	if e.DryRun || e.Resource == "" || e.Group == "authorization.k8s.io" || e.Group == "authentication.k8s.io" {
		return false
	}
	return slices.Contains(writingVerbs(), e.Verb)
}

func writingVerbs() []string {
	return []string{"create", "update", "patch", "delete", "deletecollection"}
}

// String returns the event in one line, such as "patch cluster.x-k8s.io/machines/status default/m1 200".
func (e AuditEvent) String() string {
	target := e.URI
	if e.Resource != "" {
		target = strings.Trim(e.resource()+" "+strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"), " /")
	}
	return fmt.Sprintf("%s %s %d", e.Verb, target, e.Code)
}

func (e AuditEvent) resource() string {
	resource := e.Resource
	if e.Group != "" {
		resource = e.Group + "/" + resource
	}
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return resource
}

// Mark returns the current end of the log.
func (a *Audit) Mark() (AuditMark, error) {
	_, mark, err := a.read(AuditMark{})
	return mark, err
}

// Events returns all events, in the order of the log.
func (a *Audit) Events() (AuditEvents, error) { return a.Since(AuditMark{}) }

// Since returns the events after a mark, in the order of the log.
func (a *Audit) Since(mark AuditMark) (AuditEvents, error) {
	events, _, err := a.Next(mark)
	return events, err
}

// Next returns the events after a mark, in the order of the log, and the mark behind them.
func (a *Audit) Next(mark AuditMark) (AuditEvents, AuditMark, error) {
	content, end, err := a.read(mark)
	if err != nil {
		return nil, mark, err
	}
	events := AuditEvents{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		event, err := parseAuditLine(lines.Bytes())
		if err != nil {
			return nil, mark, fmt.Errorf("read the audit log: %w", err)
		}
		events = append(events, event)
	}
	return events, end, nil
}

// read returns the complete lines after mark and the position after them. It omits a line that is being written.
func (a *Audit) read(mark AuditMark) ([]byte, AuditMark, error) {
	if a.off {
		return nil, mark, ErrNoAudit
	}
	file, err := os.Open(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mark, fmt.Errorf("read the audit log: %w: %w", ErrStopped, err)
	}
	if err != nil {
		return nil, mark, fmt.Errorf("read the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.NewSectionReader(file, mark.offset, 1<<62))
	if err != nil {
		return nil, mark, fmt.Errorf("read the audit log: %w", err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	return content, AuditMark{offset: mark.offset + int64(len(content))}, nil
}

// auditRecord is the used part of audit.k8s.io/v1 Event. It is declared here to avoid a dependency on the API server's
// module.
type auditRecord struct {
	RequestReceivedTimestamp time.Time                 `json:"requestReceivedTimestamp"`
	UserAgent                string                    `json:"userAgent"`
	Verb                     string                    `json:"verb"`
	RequestURI               string                    `json:"requestURI"`
	User                     struct{ Username string } `json:"user"`
	ObjectRef                struct {
		APIGroup, APIVersion, Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus struct{ Code int } `json:"responseStatus"`
	RequestObject  json.RawMessage    `json:"requestObject"`
	ResponseObject json.RawMessage    `json:"responseObject"`
}

func parseAuditLine(line []byte) (AuditEvent, error) {
	var r auditRecord
	if err := json.Unmarshal(line, &r); err != nil {
		return AuditEvent{}, fmt.Errorf("a line that is no audit event: %w", err)
	}
	event := AuditEvent{
		Received:  r.RequestReceivedTimestamp,
		UserAgent: r.UserAgent, User: r.User.Username,
		Verb: r.Verb, Code: r.ResponseStatus.Code, URI: r.RequestURI,
		Group: r.ObjectRef.APIGroup, Version: r.ObjectRef.APIVersion,
		Resource: r.ObjectRef.Resource, Subresource: r.ObjectRef.Subresource,
		Namespace: r.ObjectRef.Namespace, Name: r.ObjectRef.Name,
		Sent: r.RequestObject, Answer: r.ResponseObject,
	}
	if uri, err := url.ParseRequestURI(r.RequestURI); err == nil {
		event.DryRun = uri.Query().Has("dryRun")
	}
	return event, nil
}
