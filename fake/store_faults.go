package fake

import (
	"io"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Request is one API request of a client. Discovery requests and the writes of loops are not recorded.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, as in an audit log.
	Verb string
	// GVK is the kind of the object in the requested version; of the parent for a subresource.
	GVK         schema.GroupVersionKind
	Subresource string
	Namespace   string
	// Name is empty for lists, and for creations with a generated name.
	Name      string
	UserAgent string
	// PatchType is set for the verb patch.
	PatchType types.PatchType
	DryRun    bool
	// Code is the HTTP status of the response; 0 if the response was a transport error or was lost.
	Code int
}

// IsWrite reports whether the request could have changed an object: it is neither a read nor a dry run.
func (r Request) IsWrite() bool {
	return !r.DryRun && !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
}

// Match returns a predicate for requests with a verb, kind and name. Empty values match everything.
func Match(verb string, kind schema.GroupKind, name string) func(Request) bool {
	return func(r Request) bool {
		return (verb == "" || r.Verb == verb) && (kind.Empty() || r.GVK.GroupKind() == kind) && (name == "" || r.Name == name)
	}
}

// Fault makes client requests fail.
type Fault struct {
	// Match selects the requests; nil matches all. It must not use the store.
	Match func(Request) bool
	// Err is the error for the client: an API error (from apimachinery's api/errors) is the server's response, any other error is a connection
	// failure. Nil means io.ErrUnexpectedEOF.
	Err error
	// Lose performs the request before it fails, so that only the response is lost. A watch fails without being started.
	Lose bool
	// Times is how many requests fail; 0 means one, below 0 means all until the fault is removed.
	Times int
}

// requestLog has its own lock, so that faults match without the store's lock. To hold both, lock the store first.
type requestLog struct {
	mu     sync.Mutex
	log    []Request
	faults []*Fault
}

// Inject adds a fault. If several faults match a request, the first one applies. remove removes the fault.
func (s *Store) Inject(f Fault) (remove func()) {
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Err == nil {
		f.Err = io.ErrUnexpectedEOF
	}
	added := &f
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	s.requests.faults = append(s.requests.faults, added)
	return func() {
		s.requests.mu.Lock()
		defer s.requests.mu.Unlock()
		s.requests.faults = slices.DeleteFunc(s.requests.faults, func(f *Fault) bool { return f == added })
	}
}

// FailNext makes the next matching request fail with an error, without performing it.
func (s *Store) FailNext(match func(Request) bool, err error) {
	s.Inject(Fault{Match: match, Err: err})
}

// LoseNext performs the next matching request but loses the response: the client gets io.ErrUnexpectedEOF.
func (s *Store) LoseNext(match func(Request) bool) { s.Inject(Fault{Match: match, Lose: true}) }

func (l *requestLog) fault(r Request) (Fault, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.faults {
		if f.Match != nil && !f.Match(r) {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				l.faults = slices.Delete(l.faults, i, i+1)
			}
		}
		return *f, true
	}
	return Fault{}, false
}

func (l *requestLog) add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, r)
}

// Requests returns the client requests since the start or the last ResetRequests, in the order of their responses; a watch is recorded when
// it starts. A write is recorded before its result is visible, but a write whose response is lost shortly after that.
func (s *Store) Requests() []Request {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	return slices.Clone(s.requests.log)
}

// ResetRequests clears the recorded requests.
func (s *Store) ResetRequests() {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	s.requests.log = nil
}

// CountRequests counts the requests that a predicate matches.
func (s *Store) CountRequests(match func(Request) bool) int {
	return len(slices.DeleteFunc(s.Requests(), func(r Request) bool { return !match(r) }))
}
