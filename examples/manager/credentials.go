package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/machine/provider"
)

// withCredentials returns a Decorator that gives requests which have no credentials, as those of a class, the ones of the flags. An error
// about credentials names where they are. secrets must not be a cache: the rights are those to get one Secret.
func (o settings) withCredentials(secrets client.Reader) provider.Decorator {
	sources, places := o.credentialSources(secrets)
	own, account := provider.FirstOf(sources...), cmp.Or(strings.Join(places, ","), "the Secret of a MachineClass")
	return provider.Around(func(ctx context.Context, _ provider.Operation, r *provider.Request, call func(context.Context) error) error {
		if r.Credentials == nil {
			r.Account, r.Credentials = account, own
		}
		err := call(ctx)
		if provider.ClassOf(err) != provider.Unauthenticated {
			return err
		}
		return provider.Errorf(provider.Unauthenticated, "%w: put a token that has the rights into %s", err, r.Account)
	})
}

// credentialSources returns the sources of the flags in order, and their names.
func (o settings) credentialSources(secrets client.Reader) (sources []provider.Credentials, names []string) {
	for _, name := range o.Driver.Credentials {
		kind, place, _ := strings.Cut(name, ":")
		token := map[string]string{kwokdriver.CredentialsToken: place}
		switch kind {
		case options.CredentialsSecret:
			namespace, name, _ := strings.Cut(place, "/")
			sources = append(sources, provider.FromSecret(namespace, name, secretReader(secrets)))
		case options.CredentialsEnvironment:
			sources = append(sources, provider.FromEnvironment(token, os.LookupEnv))
		case options.CredentialsMetadata:
			sources = append(sources, provider.FromMetadata(token, readMetadata))
		default: // a class is not one of the flags
			continue
		}
		names = append(names, name)
	}
	return sources, names
}

// secretReader reads Secrets without a logger: client-go logs what it reads with that of the context.
func secretReader(secrets client.Reader) func(context.Context, string, string) (map[string][]byte, bool, error) {
	return func(ctx context.Context, namespace, name string) (map[string][]byte, bool, error) {
		var secret corev1.Secret
		err := secrets.Get(logr.NewContext(ctx, logr.Discard()), client.ObjectKey{Namespace: namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			return nil, false, nil
		}
		return secret.Data, err == nil, err
	}
}

// metadataLimit is how many bytes a token of a metadata service has at most.
const metadataLimit = 64 << 10

// readMetadata asks a metadata service for a token: no proxy may see it, and no redirect leads elsewhere.
func readMetadata(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusNotFound {
		return nil, provider.ErrNoCredentials
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, res.Status)
	}
	token, err := io.ReadAll(io.LimitReader(res.Body, metadataLimit+1))
	if err == nil && len(token) > metadataLimit {
		err = fmt.Errorf("GET %s: the answer has more than %d bytes", url, metadataLimit)
	}
	return token, err
}

// credentialsRole has the right to get the Secret of the flags; nil without one.
func credentialsRole(o settings) *rbacv1.Role {
	place, found := o.Driver.CredentialsOf(options.CredentialsSecret)
	if !found {
		return nil
	}
	namespace, name, _ := strings.Cut(place, "/")
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: userAgent + "-driver-credentials"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{name},
		}},
	}
}
