package cluster

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ParseKubeconfig returns the client configuration of an untrusted kubeconfig. It does not run, load or read anything that the kubeconfig
// names.
//
// Errors match [ErrUnsafeKubeconfig] when a user has an exec plugin or an auth provider, or when a certificate, key or token is the path of
// a file: this controller would run the command, or send its own files, with its own permissions. They match [errInvalidKubeconfig] when
// the kubeconfig cannot be parsed, or has no usable current context. No error contains a credential. To use plugins, load the kubeconfig
// with clientcmd in an [AccessFunc].
func ParseKubeconfig(kubeconfig []byte) (*rest.Config, error) {
	raw, err := clientcmd.Load(kubeconfig)
	if err != nil {
		// The parser's error may quote the input.
		return nil, fmt.Errorf("%w: it is not a kubeconfig in YAML or JSON", errInvalidKubeconfig)
	}
	if err := refuseUnsafe(raw); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, raw.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err): // the text of this error is about environment variables
		return nil, fmt.Errorf("%w: it has no current context with a server", errInvalidKubeconfig)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errInvalidKubeconfig, err)
	}
	server, err := url.Parse(config.Host)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		return nil, fmt.Errorf("%w: the server of the current context must be an http or https URL", errInvalidKubeconfig)
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		return nil, fmt.Errorf("%w: certificates or key: %w", errInvalidKubeconfig, err)
	}
	return config, nil
}

// refuseUnsafe checks all users and clusters, not only those of the current context: an unused one is rejected too.
func refuseUnsafe(raw *clientcmdapi.Config) error {
	for _, name := range slices.Sorted(maps.Keys(raw.AuthInfos)) {
		user := raw.AuthInfos[name]
		switch {
		case user == nil:
		case user.Exec != nil:
			return fmt.Errorf("%w: user %q has an exec plugin; put a token or a certificate in its place", ErrUnsafeKubeconfig, name)
		case user.AuthProvider != nil:
			return fmt.Errorf("%w: user %q has an auth-provider; put a token or a certificate in its place", ErrUnsafeKubeconfig, name)
		case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
			return fmt.Errorf("%w: user %q names files; put the data in their place (client-certificate-data, client-key-data, token)",
				ErrUnsafeKubeconfig, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Clusters)) {
		if cluster := raw.Clusters[name]; cluster != nil && cluster.CertificateAuthority != "" {
			return fmt.Errorf("%w: cluster %q names a file; put certificate-authority-data in its place", ErrUnsafeKubeconfig, name)
		}
	}
	return nil
}
