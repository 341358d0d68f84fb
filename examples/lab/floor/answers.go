package floor

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// answers is a server that answers writes as the API server has answered them to another client: the same objects, encoded as the client
// accepts them. Equal requests get their answers in turn. Safe for concurrent use.
type answers struct {
	server *httptest.Server

	mu  sync.Mutex
	due map[string][]answer // by method and path
}

type answer struct {
	code int
	body []byte // JSON
}

// startAnswers starts the server, with TLS and HTTP/2 like the API server. Its caller closes it.
func startAnswers() *answers {
	a := &answers{due: map[string][]answer{}}
	a.server = httptest.NewUnstartedServer(a)
	a.server.EnableHTTP2 = true
	a.server.StartTLS()
	return a
}

// kubeconfig writes the file that leads a client to the server.
func (a *answers) kubeconfig(dir string) (string, error) {
	file := filepath.Join(dir, "answers.kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters[Command] = &clientcmdapi.Cluster{
		Server:                   a.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw}),
	}
	config.Contexts[Command] = &clientcmdapi.Context{Cluster: Command}
	config.CurrentContext = Command
	return file, clientcmd.WriteToFile(*config, file)
}

// methods are the HTTP methods of the verbs that are answered.
func methods() map[string]string {
	return map[string]string{"create": http.MethodPost, "patch": http.MethodPatch, "delete": http.MethodDelete}
}

// keep keeps the answer to a write, and reports whether there is one.
func (a *answers) keep(e cluster.AuditEvent) bool {
	method, writes := methods()[e.Verb]
	uri, err := url.ParseRequestURI(e.URI)
	if !writes || err != nil || len(e.Answer) == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := method + " " + uri.Path
	a.due[key] = append(a.due[key], answer{e.Code, e.Answer})
	return true
}

// next takes the next answer to a request.
func (a *answers) next(r *http.Request) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := r.Method + " " + r.URL.Path
	due := a.due[key]
	if len(due) == 0 {
		return answer{}, false
	}
	if a.due[key] = due[1:]; len(due) == 1 {
		delete(a.due, key)
	}
	return due[0], true
}

// ServeHTTP implements http.Handler.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	answer, found := a.next(r)
	if !found {
		http.Error(w, "there is no answer to this request", http.StatusNotImplemented)
		return
	}
	body, kind := answer.body, runtime.ContentTypeJSON
	if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		encoded, err := asProtobuf(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body, kind = encoded, runtime.ContentTypeProtobuf
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(answer.code)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// asProtobuf encodes an object of Kubernetes' own types.
func asProtobuf(body []byte) ([]byte, error) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode an answer: %w", err)
	}
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &out); err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return out.Bytes(), nil
}
