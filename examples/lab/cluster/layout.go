package cluster

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// layout is the directory of one control plane and what is written into it before anything starts.
type layout struct {
	dir   string
	ports ports
	ca    *authority
}

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// The files, by their names in the directory.
const (
	caFile         = "ca.crt"
	serverCertFile = "server.crt"
	serverKeyFile  = "server.key"
	tokenKeyFile   = "service-account.key"
	clientCAFile   = "client-ca.crt"
	nodeCAFile     = "node-ca.crt"
	nodeCAKeyFile  = "node-ca.key"
	etcdCertFile   = "etcd-client.crt"
	etcdKeyFile    = "etcd-client.key"
	auditPolicy    = "audit-policy.yaml"
	auditLog       = "audit.log"
	schedulerFile  = "scheduler.yaml"
	kwokFile       = "kwok.yaml"
	adminFile      = "kubeconfig"
)

func (l layout) kubeconfig(c Component) string { return l.path(string(c) + ".kubeconfig") }
func (l layout) log(c Component) string        { return l.path(string(c) + ".log") }

// serverURL is where the API server listens.
func (l layout) serverURL() string {
	return (&url.URL{Scheme: "https", Host: hostPort(l.ports.apiServer)}).String()
}

// newLayout makes the directory below parent and fills it with keys, certificates and kubeconfig files.
func newLayout(parent string) (layout, error) {
	dir, err := os.MkdirTemp(parent, "machinist-controlplane-")
	if err != nil {
		return layout{}, fmt.Errorf("make the control plane's directory: %w", err)
	}
	l := layout{dir: dir}
	if err := l.fill(); err != nil {
		_ = os.RemoveAll(dir)
		return layout{}, err
	}
	return l, nil
}

func (l *layout) fill() error {
	var err error
	if l.ports, err = freePorts(); err != nil {
		return err
	}
	if l.ca, err = newAuthority("machinist-controlplane"); err != nil {
		return err
	}
	if err := l.writeKeys(); err != nil {
		return err
	}
	// kwok is no part of Kubernetes, so there is no role for it.
	users := map[string][]string{
		l.path(adminFile):               {"admin", "system:masters"},
		l.kubeconfig(ControllerManager): {"system:kube-controller-manager"},
		l.kubeconfig(Scheduler):         {"system:kube-scheduler"},
		l.kubeconfig(Kwok):              {"kwok", "system:masters"},
	}
	for path, user := range users {
		config, err := l.config(user[0], user[1:]...)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(path, config); err != nil {
			return err
		}
	}
	return nil
}

func (l *layout) writeKeys() error {
	server, err := l.ca.server()
	if err != nil {
		return err
	}
	etcdClient, err := l.ca.client("kube-apiserver")
	if err != nil {
		return err
	}
	tokens, err := newKey()
	if err != nil {
		return err
	}
	tokenPEM, err := encodeKey(tokens)
	if err != nil {
		return err
	}
	// The certificates of kubelets are signed by the controller manager, which needs a key for that. It is one of its own, because
	// the key of ca never leaves this process.
	nodes, err := newAuthority("machinist-nodes")
	if err != nil {
		return err
	}
	nodeKey, err := encodeKey(nodes.key)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		caFile:       l.ca.pem,
		clientCAFile: slices.Concat(l.ca.pem, nodes.pem),
		nodeCAFile:   nodes.pem, nodeCAKeyFile: nodeKey,
		serverCertFile: server.cert, serverKeyFile: server.key,
		etcdCertFile: etcdClient.cert, etcdKeyFile: etcdClient.key,
		tokenKeyFile: tokenPEM,
	}
	for name, content := range files {
		if err := l.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

func (l *layout) write(name string, content []byte) error {
	if err := os.WriteFile(l.path(name), content, 0o600); err != nil {
		return fmt.Errorf("write the control plane's %s: %w", name, err)
	}
	return nil
}

// config is a client configuration with a new certificate for this user, without client-side limits.
func (l *layout) config(user string, groups ...string) (*rest.Config, error) {
	pair, err := l.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: l.serverURL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: l.ca.pem, CertData: pair.cert, KeyData: pair.key,
		},
		QPS: -1,
	}, nil
}

// writeKubeconfig writes the config into a file that kubectl can use.
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "machinist"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthorityData: config.CAData,
	}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("write the kubeconfig %s: %w", path, err)
	}
	return nil
}
