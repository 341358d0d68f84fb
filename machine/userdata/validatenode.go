package userdata

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const tokenProblem = "must be a bootstrap token: 6 and 16 lower-case letters and digits with a point between"

var tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

func (p *problems) cluster(c Cluster) {
	p.addUnless(validURL(c.Server, "https") && !strings.ContainsAny(c.Server, "?#@"), "Cluster.Server",
		"must be a URL that begins with https://, such as https://192.0.2.1:6443")
	p.certificates("Cluster.CA", c.CA)
	p.addUnless(tokenForm.MatchString(c.Token.Reveal()), "Cluster.Token", tokenProblem)
	p.addresses("Cluster.DNS", c.DNS)
	p.addUnless(c.Domain == "" || validName(c.Domain), "Cluster.Domain", "must be a domain, such as cluster.local")
}

func (p *problems) node(v *values) {
	n := v.Node
	p.addUnless(n.Name == "" || validName(n.Name), "Node.Name", "must be a valid name of a Node")
	p.addUnless(n.Name == "" || len(n.Name) <= 63, "Node.Name", "must have at most 63 characters, since it is the host name too")
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		p.label(key, n.Labels[key])
	}
	seen := map[string]bool{}
	for i, t := range n.Taints {
		field := fmt.Sprintf("Node.Taints[%d]", i)
		p.taint(field, t)
		id := t.Key + ":" + string(t.Effect)
		p.addUnless(!seen[id], field, "is there twice, by key and effect")
		seen[id] = true
	}
	p.addresses("Node.Addresses", n.Addresses)
	p.addUnless(len(n.Addresses) < 2 || len(n.Addresses) == 2 && n.Addresses[0].Is4() != n.Addresses[1].Is4(), "Node.Addresses",
		"must have at most one address of each family")
	for i, a := range n.Addresses {
		ok := a.Is4() && v.HasIPv4() || !a.Is4() && v.HasIPv6()
		p.addUnless(ok, fmt.Sprintf("Node.Addresses[%d]", i), "must be of a family of Families")
	}
}

// label rejects labels that the API server or the kubelet would reject, because the kubelet would not start.
func (p *problems) label(key, value string) {
	if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		p.add(fmt.Sprintf("Node.Labels[%q]", key), "must be a valid key with a valid value")
		return
	}
	p.addUnless(kubeletMayAdd(key), fmt.Sprintf("Node.Labels[%q]", key),
		"a kubelet must not give this label to its own Node: propagate it from the Machine")
}

// kubeletMayAdd reports whether a kubelet starts with a label. Rule: kubelet's --node-labels, from KEP-279.
func kubeletMayAdd(key string) bool {
	domain, _, prefixed := strings.Cut(key, "/")
	under := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	if !prefixed || !under("kubernetes.io") && !under("k8s.io") || under("kubelet.kubernetes.io") || under("node.kubernetes.io") {
		return true
	}
	return slices.Contains([]string{
		corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}, key)
}

func (p *problems) taint(field string, t corev1.Taint) {
	p.addUnless(len(validation.IsQualifiedName(t.Key)) == 0, field+".Key", "must be a valid key")
	p.addUnless(len(validation.IsValidLabelValue(t.Value)) == 0, field+".Value", "must be a valid value of a label")
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	p.addUnless(slices.Contains(effects, t.Effect), field+".Effect", "must be NoSchedule, PreferNoSchedule or NoExecute")
}

// certificates rejects anything but certificates, above all private keys.
func (p *problems) certificates(field, text string) {
	rest, found := []byte(text), false
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			p.add(field, "has a PEM block of another type than CERTIFICATE")
			return
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			p.add(field, "has a certificate that cannot be read")
			return
		}
		found = true
	}
	p.addUnless(found && strings.TrimSpace(string(rest)) == "", field, "must be certificates in PEM and nothing else")
}

// validURL reports whether a text is a URL with a host that every program reads alike.
func validURL(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && u.Opaque == "" &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`\\<>^{|}", r) })
}
