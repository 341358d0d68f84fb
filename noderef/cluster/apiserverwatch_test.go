package cluster

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// watch streams the existing Nodes, if requested, and the events after the resourceVersion.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, _ := strconv.Atoi(query.Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	if query.Get("sendInitialEvents") == "true" {
		after = s.sendInitial(out)
	}
	w.(http.Flusher).Flush()
	for {
		s.mu.Lock()
		changed, release := s.changed, s.release
		var due []watchEvent
		for _, e := range s.events {
			if e.rv > after {
				due = append(due, e)
			}
		}
		s.mu.Unlock()
		if release != nil {
			select {
			case <-release:
				continue
			case <-r.Context().Done():
				return
			}
		}
		for _, e := range due {
			_ = out.Encode(e.WatchEvent)
			after = e.rv
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *apiServer) sendInitial(out *json.Encoder) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range s.nodes {
		_ = out.Encode(metav1.WatchEvent{Type: "ADDED", Object: raw(node)})
	}
	end := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	end.ResourceVersion = strconv.Itoa(s.rv)
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	_ = out.Encode(metav1.WatchEvent{Type: "BOOKMARK", Object: raw(end)})
	return s.rv
}

// kubeconfig returns a kubeconfig with a bearer token.
func (s *apiServer) kubeconfig(token string) []byte {
	s.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + s.addr, CertificateAuthorityData: certificatePEM(s.t)}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	out, err := clientcmd.Write(*config)
	require.NoError(s.t, err)
	return out
}

func (s *apiServer) config(token string) *rest.Config {
	s.t.Helper()
	config, err := ParseKubeconfig(s.kubeconfig(token))
	require.NoError(s.t, err)
	return config
}
