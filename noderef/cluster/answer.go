package cluster

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// reply is an answer of the server, or of a proxy or a load balancer in front of it.
type reply struct {
	status    int
	path      string
	mediaType string // empty if there is none
}

// serves reports whether the answer to a probe means that the server serves. A refusal of this path does, and so does
// "retry later". A page for browsers does not: a login page is also answered 200.
func (a reply) serves() bool {
	switch a.status {
	case http.StatusOK:
		return a.kind() != "text/html"
	case http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return false
}

func (a reply) kind() string {
	kind, _, _ := mime.ParseMediaType(a.mediaType)
	return kind
}

// absentElsewhere reports whether an answer is a 404 that does not come from an API server and so does not mean that
// the object is absent. API servers answer 404 for an object or a kind in a Kubernetes format or, for an unknown path,
// in plain text. Only the Kubernetes format proves that an object is absent.
func (a reply) absentElsewhere() bool {
	if a.status != http.StatusNotFound {
		return false
	}
	switch a.kind() {
	case "application/json", "application/yaml", "application/cbor", "application/vnd.kubernetes.protobuf":
		return false
	case "text/html":
		return true
	}
	return isObjectPath(a.path)
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
	said := fmt.Sprintf("answers %d %s at %s", e.status, http.StatusText(e.status), e.path)
	if e.status == http.StatusUnauthorized {
		return errUnauthorized.Error() + ": it " + said
	}
	return "the API server " + said
}

// Is matches errUnauthorized.
func (e *answerError) Is(target error) bool {
	return target == errUnauthorized && e.status == http.StatusUnauthorized
}
