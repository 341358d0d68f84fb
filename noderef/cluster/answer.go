package cluster

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// sniffed is how much of a body says what it is.
const sniffed = 512

// reply is what a server sends back. It may be that of a proxy or a load balancer, which do not speak as API servers do.
type reply struct {
	status    int
	path      string
	mediaType string // as the server names it; empty when it does not
	body      []byte // its beginning
}

// verdict is what an answer means for the connection.
type verdict uint8

const (
	// ready means that the server serves.
	ready verdict = iota
	// forbidden means that it knows the caller and refuses just this path.
	forbidden
	// overloaded means that it asks for patience.
	overloaded
	// unauthorized means that it does not accept the credentials.
	unauthorized
	// down means that the server answers and does not serve.
	down
)

// judge says what the answer to a probe means. The status decides; only a success has to look like an API server's too, because a login
// page is a success.
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

// isPage reports whether the answer is made for a browser.
func (a reply) isPage() bool {
	named := a.mediaType
	if named == "" {
		named = http.DetectContentType(a.body)
	}
	kind, _, _ := mime.ParseMediaType(named)
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// absentElsewhere reports whether an answer says 404 and is not about an object: API servers say of an object that it does not exist, or
// of a kind that they do not serve it, in a format of theirs or, where nothing is known of the path, in plain text. Only the former may
// be taken for the absence of an object.
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

// isObjectPath reports whether objects are below a path, and not the list of the kinds that there are.
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
		return ErrUnauthorized.Error() + ": it answers " + said
	case e.isPage():
		said += ", with a page for browsers"
	}
	return "the API server answers " + said
}

// Is matches ErrUnauthorized.
func (e *answerError) Is(target error) bool {
	return target == ErrUnauthorized && e.status == http.StatusUnauthorized
}
