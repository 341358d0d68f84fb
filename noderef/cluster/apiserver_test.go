package cluster

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// apiServer is the part of an API server, over TLS and HTTP/2, that clients need for Nodes. It can stop, restart at the same
// address, hang, and change which credentials it accepts.
type apiServer struct {
	t    *testing.T
	addr string
	http *httptest.Server

	mu        sync.Mutex
	release   chan struct{} // closed when hanging requests may end; nil while the server serves
	refused   map[string]int
	pages     string            // the media type of refusals, which are not an API server's then
	slow      chan struct{}     // the pieces of a list of Nodes are sent when something comes; nil for at once
	shown     map[string]string // by line, the credentials of the last request
	tokens    []string
	uid       types.UID // of the namespace kube-system
	rv        int
	nodes     map[string]*corev1.Node
	events    []watchEvent
	changed   chan struct{} // closed and replaced with each event
	requests  []string
	under     map[string]int // requests under way, by line
	protocols map[string]bool
}

type watchEvent struct {
	rv int
	metav1.WatchEvent
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{
		t: t, nodes: map[string]*corev1.Node{}, changed: make(chan struct{}), tokens: []string{"t1"}, rv: 1, uid: "first",
		refused: map[string]int{}, shown: map[string]string{}, under: map[string]int{}, protocols: map[string]bool{},
	}
	require.NoError(t, s.listen("127.0.0.1:0"))
	t.Cleanup(func() {
		s.serve()
		s.stop()
	})
	return s
}

func (s *apiServer) listen(address string) error {
	listener, err := net.Listen("tcp", address) //nolint:noctx // ends with the server
	if err != nil {
		return err
	}
	server := httptest.NewUnstartedServer(s)
	_ = server.Listener.Close()
	server.Listener, server.EnableHTTP2 = listener, true
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	s.http, s.addr = server, listener.Addr().String()
	return nil
}

// stop kills the server: connections break, and new ones are refused.
func (s *apiServer) stop() {
	if s.http != nil {
		_ = s.http.Listener.Close() // first, or a client is back at once
		s.http.CloseClientConnections()
		s.http = nil
	}
}

// restart brings the server back at its address, with all its data. Another process may have the port for a moment.
func (s *apiServer) restart() {
	s.t.Helper()
	if !poll(func() bool { return s.listen(s.addr) == nil }) {
		s.t.Fatalf("the port of %s stays taken", s.addr)
	}
}

// hang makes the server accept requests without an answer, and send nothing on its watches.
func (s *apiServer) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release == nil {
		s.release = make(chan struct{})
	}
}

// serve ends hang.
func (s *apiServer) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release != nil {
		close(s.release)
		s.release = nil
	}
}

// refuse answers requests whose line has this prefix with a status; 0 ends that.
func (s *apiServer) refuse(prefix string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[prefix] = status
}

// answerAsProxy makes refusals look like those of a proxy, with a media type.
func (s *apiServer) answerAsProxy(mediaType string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = mediaType
}

func (s *apiServer) accept(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = tokens
}

// count returns how many requests have come whose line has this prefix.
func (s *apiServer) count(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// credentialsIn names the token and the client certificate of a request.
func credentialsIn(r *http.Request) string {
	shown := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, certificate := range r.TLS.PeerCertificates {
		shown += " " + certificate.Subject.CommonName
	}
	return shown
}

// credentials returns the credentials of the last request with this line.
func (s *apiServer) credentials(line string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[line]
}

// pending returns how many requests are in flight whose line has this prefix.
func (s *apiServer) pending(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for line, under := range s.under {
		if strings.HasPrefix(line, prefix) {
			n += under
		}
	}
	return n
}

func (s *apiServer) put(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: strconv.Itoa(s.rv)},
	}
	verb := "ADDED"
	if s.nodes[name] != nil {
		verb = "MODIFIED"
	}
	s.nodes[name] = node
	s.emitLocked(verb, node)
}

// rewind restores a backup with one Node. It ends no watches, so the server must be stopped.
func (s *apiServer) rewind(rv int, name string) {
	s.mu.Lock()
	s.rv, s.nodes, s.events = rv-1, map[string]*corev1.Node{}, nil
	s.mu.Unlock()
	s.put(name)
}

// bookmark sends a bookmark to every watch.
func (s *apiServer) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	s.emitLocked("BOOKMARK", &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.rv)},
	})
}

func (s *apiServer) emitLocked(verb string, node *corev1.Node) {
	e := watchEvent{rv: s.rv, WatchEvent: metav1.WatchEvent{Type: verb}}
	e.Object.Raw, _ = json.Marshal(node)
	s.events = append(s.events, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	line := r.Method + " " + r.URL.Path
	if r.URL.Query().Get("watch") != "" {
		line = "WATCH " + r.URL.Path
	}
	if r.URL.Query().Get("limit") == "1" {
		line = "PEEK " + r.URL.Path
	}
	s.mu.Lock()
	s.requests = append(s.requests, line)
	s.under[line]++
	s.shown[line] = credentialsIn(r)
	s.protocols[r.Proto] = true
	release, tokens, pages, status := s.release, s.tokens, s.pages, 0
	for prefix, code := range s.refused {
		if strings.HasPrefix(line, prefix) {
			status = code
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.under[line]--
	}()
	if release != nil {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case status != 0 && pages != "":
		w.Header().Set("Content-Type", pages)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><body>an answer of a proxy</body></html>")
	case !slices.Contains(tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")):
		answer(w, http.StatusUnauthorized, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnauthorized, Code: 401})
	case status != 0:
		answer(w, status, &metav1.Status{Status: metav1.StatusFailure, Message: "refused by the test", Code: int32(status)})
	default:
		s.answer(w, r, line)
	}
}

func (s *apiServer) answer(w http.ResponseWriter, r *http.Request, line string) {
	switch name, _ := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); {
	case line == "GET /readyz":
		_, _ = w.Write([]byte("ok"))
	case line == "GET /api":
		answer(w, http.StatusOK, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case line == "GET /apis":
		answer(w, http.StatusOK, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	case line == "GET /api/v1":
		answer(w, http.StatusOK, &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "nodes", SingularName: "node", Kind: "Node",
				Verbs: []string{"get", "list", "watch", "patch"}},
				{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", Verbs: []string{"get"}}},
		})
	case line == "GET /api/v1/namespaces/kube-system":
		namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}}
		s.mu.Lock()
		namespace.UID = s.uid
		s.mu.Unlock()
		answer(w, http.StatusOK, namespace)
	case s.slow != nil && r.URL.Query().Get("sendInitialEvents") != "": // it streams no lists then
		answer(w, http.StatusUnprocessableEntity, &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: 422,
		})
	case line == "WATCH /api/v1/nodes":
		s.watch(w, r)
	case line == "GET /api/v1/nodes", line == "PEEK /api/v1/nodes":
		list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
		s.mu.Lock()
		list.ResourceVersion = strconv.Itoa(s.rv)
		for _, node := range s.nodes {
			list.Items = append(list.Items, *node)
		}
		s.mu.Unlock()
		if s.slow != nil {
			w = &slowWriter{w, r, s.slow}
		}
		answer(w, http.StatusOK, list)
	case name != r.URL.Path:
		s.mu.Lock()
		node := s.nodes[name]
		s.mu.Unlock()
		if node == nil {
			answer(w, http.StatusNotFound, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404})
			return
		}
		answer(w, http.StatusOK, node)
	default:
		http.NotFound(w, r)
	}
}

// slowWriter sends a body in four pieces, each one when it may.
type slowWriter struct {
	http.ResponseWriter

	request *http.Request
	next    chan struct{}
}

// Write implements io.Writer.
func (w *slowWriter) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, len(p)/4+1) {
		if _, err := w.ResponseWriter.Write(piece); err != nil {
			return 0, err
		}
		w.ResponseWriter.(http.Flusher).Flush()
		select {
		case <-w.next:
		case <-w.request.Context().Done():
			return 0, w.request.Context().Err()
		}
	}
	return len(p), nil
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
