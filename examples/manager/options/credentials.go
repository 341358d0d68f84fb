package options

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Kinds of the sources in Driver.Credentials. All but CredentialsClass have a colon and a place behind them.
const (
	// CredentialsClass are the Secrets of the class of a Machine. They go before all others.
	CredentialsClass = "class"
	// CredentialsSecret is one Secret, as NAMESPACE/NAME.
	CredentialsSecret = "secret"
	// CredentialsEnvironment is an environment variable.
	CredentialsEnvironment = "environment"
	// CredentialsMetadata is the URL of a metadata service.
	CredentialsMetadata = "metadata"
)

// HasCredentials reports whether the driver has credentials of its own, and not those of this program.
func (d *Driver) HasCredentials() bool { return d.Name != "" && len(d.Credentials) > 0 }

// CredentialsOf returns the place of the source of a kind; found is false without such a source.
func (d *Driver) CredentialsOf(kind string) (place string, found bool) {
	for _, source := range d.Credentials {
		if of, place, _ := strings.Cut(source, ":"); of == kind && d.Name != "" {
			return place, true
		}
	}
	return "", false
}

// validCredentials returns an error for each source that is none, or that is the second one of its kind.
func (d *Driver) validCredentials() (errs []error) {
	seen := map[string]bool{}
	for _, source := range d.Credentials {
		kind, place, _ := strings.Cut(source, ":")
		if seen[kind] || !isSource(kind, place) {
			errs = append(errs, fmt.Errorf("invalid --driver-credentials %q: must be class, secret:NAMESPACE/NAME, environment:VARIABLE or "+
				"metadata:URL, each once at most", shown(source)))
		}
		seen[kind] = true
	}
	return errs
}

// shown is a source as an error names it. A URL may have a password, and what is no source at all may be a token.
func shown(source string) string {
	switch kind, _, _ := strings.Cut(source, ":"); kind {
	case CredentialsClass, CredentialsSecret, CredentialsEnvironment:
		return source
	case CredentialsMetadata:
		return kind + ":..."
	}
	return "..."
}

func isSource(kind, place string) bool {
	switch kind {
	case CredentialsClass:
		return place == ""
	case CredentialsSecret:
		namespace, name, _ := strings.Cut(place, "/")
		return len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
	case CredentialsEnvironment:
		return len(validation.IsEnvVarName(place)) == 0
	case CredentialsMetadata:
		u, err := url.Parse(place)
		return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
	}
	return false
}
