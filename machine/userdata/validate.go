package userdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ConfigError says what is wrong with one field of a Config. It never has the value of the field, which may be secret. Find all of them
// with errors.As on each error of the joined one.
type ConfigError struct {
	// Field is the path of the field, such as Cluster.Token.
	Field string
	// Problem is what is wrong and what is expected.
	Problem string
}

func (e *ConfigError) Error() string { return e.Field + ": " + e.Problem }

// problems collects ConfigErrors.
type problems struct{ errs []error }

func (p *problems) add(field, problem string, args ...any) {
	p.errs = append(p.errs, &ConfigError{Field: field, Problem: fmt.Sprintf(problem, args...)})
}

// addUnless adds a problem unless ok.
func (p *problems) addUnless(ok bool, field, problem string) {
	if !ok {
		p.add(field, "%s", problem)
	}
}

var (
	versionForm  = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)
	sha256Form   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	imageForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)
	providerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.-]*://[A-Za-z0-9._:/@=,+-]+$`)
	linkForm     = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`)
	noProxyForm  = regexp.MustCompile(`^[A-Za-z0-9.*:/_-]+$`)
	keyForm      = regexp.MustCompile(`^(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [\x20-\x7e]*)?$`)
)

// Validate checks a Config for this system and returns all that is wrong, as joined errors of the type *ConfigError, or nil. Render calls
// it.
func (s System) Validate(c Config) error {
	if s.sources == nil {
		return ErrNoSystem
	}
	var p problems
	v := valuesOf(s, c)
	p.version(s, &v)
	p.addUnless(v.Architecture == AMD64 || v.Architecture == ARM64, "Architecture", "must be amd64 or arm64")
	p.addUnless(v.Families == IPv4 || v.Families == IPv6 || v.Families == DualStack, "Families", "must be IPv4, IPv6 or DualStack")
	p.cluster(c.Cluster)
	p.node(&v)
	p.kubelet(c.Kubelet)
	if c.Network != nil {
		p.network(*c.Network)
	}
	p.proxy(c.Proxy)
	for i, key := range c.SSHKeys {
		p.addUnless(keyForm.MatchString(key), fmt.Sprintf("SSHKeys[%d]", i),
			"must be a type, a key and maybe a comment, in one line and without options")
	}
	if c.HostCAs != "" {
		p.certificates("HostCAs", c.HostCAs)
	}
	p.sources(c.Sources)
	p.addUnless(c.SandboxImage == "" || imageForm.MatchString(c.SandboxImage), "SandboxImage", "must be the name of an image")
	p.files(c.Files)
	return errors.Join(p.errs...)
}

func (p *problems) version(s System, v *Values) {
	switch {
	case !versionForm.MatchString(v.Version):
		p.add("Version", "must be a version with a patch, such as v1.36.3")
	case !slices.Contains(s.manifest.Versions, v.Minor):
		p.add("Version", "%s has templates for %s only", s.Name(), strings.Join(s.manifest.Versions, " and "))
	}
}

func (p *problems) kubelet(overrides json.RawMessage) {
	if len(overrides) == 0 {
		return
	}
	var set map[string]json.RawMessage
	if json.Unmarshal(overrides, &set) != nil {
		p.add("Kubelet", "must be a JSON object")
		return
	}
	for _, owned := range []struct{ key, instead string }{
		{"apiVersion", "nothing"}, {"clusterDNS", "Cluster.DNS"}, {"clusterDomain", "Cluster.Domain"}, {"kind", "nothing"},
		{"providerID", "Node.ProviderID"}, {"registerWithTaints", "Node.Taints"},
	} {
		if _, is := set[owned.key]; is {
			p.add("Kubelet."+owned.key, "cannot be set here: use %s", owned.instead)
		}
	}
}

func (p *problems) network(n Network) {
	p.addUnless(linkForm.MatchString(n.Interface), "Network.Interface", "must be the name of an interface, such as eth0")
	for i, a := range n.Addresses {
		p.addUnless(a.IsValid(), fmt.Sprintf("Network.Addresses[%d]", i),
			"must be an address with the length of its network, such as 192.0.2.7/24")
	}
	p.onePerFamily("Network.Gateways", n.Gateways)
	p.addUnless(len(n.Gateways) == 0 || len(n.Addresses) > 0, "Network.Gateways",
		"need static addresses: without any, DHCP says what the gateway is")
	p.addresses("Network.DNS", n.DNS)
	p.addUnless(n.MTU == 0 || n.MTU >= 1280 && n.MTU <= 65535, "Network.MTU", "must be from 1280 to 65535, or 0")
}

func (p *problems) addresses(field string, addresses []netip.Addr) {
	for i, a := range addresses {
		p.addUnless(a.IsValid() && a.Zone() == "", fmt.Sprintf("%s[%d]", field, i), "must be an IP address without a zone")
	}
}

func (p *problems) onePerFamily(field string, addresses []netip.Addr) {
	p.addresses(field, addresses)
	if len(addresses) > 2 || len(addresses) == 2 && addresses[0].Is4() == addresses[1].Is4() {
		p.add(field, "must have at most one address of each family")
	}
}

func (p *problems) proxy(proxy Proxy) {
	for field, u := range []Secret{proxy.HTTP, proxy.HTTPS} {
		p.addUnless(u.IsZero() || validURL(u.Reveal(), "http", "https"), []string{"Proxy.HTTP", "Proxy.HTTPS"}[field],
			"must be a URL such as http://proxy.example.com:3128")
	}
	for i, no := range proxy.No {
		p.addUnless(noProxyForm.MatchString(no), fmt.Sprintf("Proxy.No[%d]", i), "must be one host, domain, address or network")
	}
}

func (p *problems) sources(s Sources) {
	for _, from := range []struct{ field, url string }{
		{"Kubernetes", s.Kubernetes}, {"Containerd", s.Containerd}, {"Plugins", s.Plugins},
	} {
		ok := from.url == "" || validURL(from.url, "https") && !strings.ContainsAny(from.url, "?#@")
		p.addUnless(ok, "Sources."+from.field, "must be a URL that begins with https:// and ends with a path")
	}
	p.addUnless(s.KubeletSHA256 == "" || sha256Form.MatchString(s.KubeletSHA256), "Sources.KubeletSHA256", "must be 64 hexadecimal digits")
}

func (p *problems) files(files []File) {
	seen := map[string]bool{}
	for i, f := range files {
		field := fmt.Sprintf("Files[%d]", i)
		if err := checkPath(f.Path); err != nil {
			p.add(field+".Path", "%v", err)
		} else if seen[f.Path] {
			p.add(field+".Path", "is there twice")
		}
		seen[f.Path] = true
		p.addUnless(f.Mode&^fs.ModePerm == 0, field+".Mode", "must be permissions only")
	}
}

// checkPath keeps to what every format and every shell reads alike.
func checkPath(name string) error {
	printable := !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	if !path.IsAbs(name) || path.Clean(name) != name || name == "/" || !printable {
		return errors.New("must be a clean absolute path of printable ASCII without spaces")
	}
	return nil
}

func validName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }
