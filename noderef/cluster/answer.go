package cluster

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// sniffedBytes is how much of a body is read to find out what it is.
const sniffedBytes = 512

// reply is an answer of the server, or of a proxy or a load balancer in front of it.
type reply struct {
	status    int
	path      string
	mediaType string // empty if there is none
	body      []byte // the first sniffedBytes of it
}

// verdict is what an answer means for the connection.
type verdict uint8

const (
	// ready means that the server serves.
	ready verdict = iota
	// forbidden means that the server accepts the credentials but refuses this path.
	forbidden
	// overloaded means that the server asks the client to retry later.
	overloaded
	// unauthorized means that the server does not accept the credentials.
	unauthorized
	// down means that the server answers but does not serve.
	down
)

// judge returns what the answer to a probe means. The status decides. Only for a success the body must look like an API
// server's too, because a login page is also answered 200.
func judge(a reply) verdict {
	switch a.status {
	case http.StatusOK:
		if a.isPage() {
			return down
		}
		return ready
	case http.StatusForbidden:
		return forbidden
	case http.StatusTooManyRequests:
		return overloaded
	case http.StatusUnauthorized:
		return unauthorized
	}
	return down
}

// isPage reports whether the answer is an HTML page.
func (a reply) isPage() bool {
	named := a.mediaType
	if named == "" {
		named = http.DetectContentType(a.body)
	}
	kind, _, _ := mime.ParseMediaType(named)
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// absentElsewhere reports whether an answer is a 404 that does not come from an API server and so does not mean that
// the object is absent. API servers answer 404 for an object or a kind in a Kubernetes format or, for an unknown path,
// in plain text. Only the Kubernetes format proves that an object is absent.
func absentElsewhere(a reply) bool {
	if a.status != http.StatusNotFound {
		return false
	}
	kind, _, _ := mime.ParseMediaType(a.mediaType)
	if isObjectPath(a.path) {
		return kind != "application/json" && kind != "application/yaml" && kind != "application/cbor" &&
			kind != "application/vnd.kubernetes.protobuf"
	}
	return a.isPage()
}

// isObjectPath reports whether a path is below a resource, and not a discovery path.
func isObjectPath(path string) bool {
	if _, rest, found := strings.Cut(path, "/apis/"); found {
		return strings.Count(rest, "/") >= 2 // group, version, resource
	}
	_, rest, found := strings.Cut(path, "/api/")
	return found && strings.Count(rest, "/") >= 1
}

// answerError is an answer that a ready API server does not give.
type answerError struct{ reply }

func (e *answerError) Error() string {
	said := fmt.Sprintf("%d %s at %s", e.status, http.StatusText(e.status), e.path)
	switch {
	case e.status == http.StatusUnauthorized:
		return errUnauthorized.Error() + ": it answers " + said
	case e.isPage():
		said += ", with a page for browsers"
	}
	return "the API server answers " + said
}

// Is matches errUnauthorized.
func (e *answerError) Is(target error) bool {
	return target == errUnauthorized && e.status == http.StatusUnauthorized
}
