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

// problems collects errors. It never contains the value of a field, which may be secret.
type problems struct{ errs []error }

// add adds a problem of a field, such as Cluster.Token.
func (p *problems) add(field, problem string, args ...any) {
	p.errs = append(p.errs, errors.New(field+": "+fmt.Sprintf(problem, args...)))
}

// addUnless adds a problem unless ok.
func (p *problems) addUnless(ok bool, field, problem string) {
	if !ok {
		p.add(field, "%s", problem)
	}
}

var versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// validate returns all values with which a machine would not boot or not join its cluster, and private keys in place of certificates.
// Values that are only wrong in a file of the machine, such as an unusable public key, are left to the tools that read it.
func (s System) validate(c Config) error {
	if s.sources == nil {
		return errors.New("the system has no templates: use Builtin or Load")
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
	for field, u := range []Secret{c.Proxy.HTTP, c.Proxy.HTTPS} {
		p.addUnless(u.IsZero() || validURL(u.Reveal(), "http", "https"), []string{"Proxy.HTTP", "Proxy.HTTPS"}[field],
			"must be a URL such as http://proxy.example.com:3128")
	}
	if c.HostCAs != "" {
		p.certificates("HostCAs", c.HostCAs)
	}
	p.files(c.Files)
	return errors.Join(p.errs...)
}

func (p *problems) version(s System, v *values) {
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
	if json.Unmarshal(overrides, &set) != nil || set == nil {
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
	p.addUnless(n.Interface != "", "Network.Interface", "must be the name of an interface, such as eth0")
	for i, a := range n.Addresses {
		p.addUnless(a.IsValid(), fmt.Sprintf("Network.Addresses[%d]", i),
			"must be an address with the length of its network, such as 192.0.2.7/24")
	}
	p.addresses("Network.Gateways", n.Gateways)
	p.addUnless(len(n.Gateways) == 0 || len(n.Addresses) > 0, "Network.Gateways",
		"need static addresses: without any, DHCP sets the gateway")
	p.addresses("Network.DNS", n.DNS)
}

func (p *problems) addresses(field string, addresses []netip.Addr) {
	for i, a := range addresses {
		p.addUnless(a.IsValid() && a.Zone() == "", fmt.Sprintf("%s[%d]", field, i), "must be an IP address without a zone")
	}
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

// checkPath accepts only paths that every format and every shell read alike.
func checkPath(name string) error {
	printable := !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	if !path.IsAbs(name) || path.Clean(name) != name || name == "/" || !printable {
		return errors.New("must be a clean absolute path of printable ASCII without spaces")
	}
	return nil
}

func validName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }
