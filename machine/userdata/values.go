package userdata

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/noderef/propagate"
)

// values are the values for templates, see Load: the fields of a Config with its defaults, and derived values. Every value that a template
// prints is quoted for the language of its file.
type values struct {
	Config
	// Minor is the minor version of Kubernetes, such as v1.36.
	Minor string
	// System are the values of the manifest.
	System map[string]string
	// Taints are the taints of the Node and the uninitialized taint, sorted.
	Taints []corev1.Taint
	// FetchURL is the URL from which the first of two stages reads the second; otherwise empty.
	FetchURL string
}

func valuesOf(s System, c Config) values {
	c.Architecture = cmp.Or(c.Architecture, AMD64)
	c.Families = cmp.Or(c.Families, IPv4)
	c.Cluster.Domain = cmp.Or(c.Cluster.Domain, "cluster.local")
	minor := strings.TrimSuffix(c.Version, path.Ext(c.Version))
	return values{Config: c, Minor: minor, System: s.manifest.Values, Taints: taints(c.Node)}
}

// UninitializedTaint returns the taint that Cluster API's contract requires every Node to be registered with.
func UninitializedTaint() corev1.Taint {
	return corev1.Taint{Key: propagate.UninitializedTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

func taints(n Node) []corev1.Taint {
	var all []corev1.Taint
	if !n.OmitUninitialized {
		all = append(all, UninitializedTaint())
	}
	for _, t := range n.Taints {
		if t.TimeAdded = nil; n.OmitUninitialized || !t.MatchTaint(&all[0]) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b corev1.Taint) int {
		return strings.Compare(a.Key+" "+string(a.Effect), b.Key+" "+string(b.Effect))
	})
	return all
}

// HasIPv4 reports whether Nodes have IPv4.
func (v *values) HasIPv4() bool { return v.Families != IPv6 }

// HasIPv6 reports whether Nodes have IPv6.
func (v *values) HasIPv6() bool { return v.Families != IPv4 }

// KubeletArgs returns the arguments that a KubeletConfiguration cannot contain.
func (v *values) KubeletArgs() string {
	var args []string
	if v.Node.Name != "" {
		args = append(args, "--hostname-override="+v.Node.Name)
	}
	if len(v.Node.Labels) > 0 {
		labels := make([]string, 0, len(v.Node.Labels))
		for _, key := range slices.Sorted(maps.Keys(v.Node.Labels)) {
			labels = append(labels, key+"="+v.Node.Labels[key])
		}
		args = append(args, "--node-labels="+strings.Join(labels, ","))
	}
	own := make([]string, 0, len(v.Node.Addresses))
	for _, a := range v.Node.Addresses {
		own = append(own, a.String())
	}
	switch {
	case len(own) > 0:
		args = append(args, "--node-ip="+strings.Join(own, ","))
	case v.Families == IPv6:
		args = append(args, "--node-ip=::")
	}
	if v.Cluster.ExternalCloudProvider {
		args = append(args, "--cloud-provider=external")
	}
	return strings.Join(args, " ")
}

// FindNodeIPs reports whether the machine must find its two addresses itself: a kubelet without a cloud provider finds only one.
func (v *values) FindNodeIPs() bool {
	return v.Families == DualStack && len(v.Node.Addresses) == 0 && !v.Cluster.ExternalCloudProvider
}

// NoProxy returns the destinations that need no proxy. The API server is included by its host, a name or an address, because curl before
// 7.86 does not support networks.
func (v *values) NoProxy() string {
	without := []string{"localhost", "127.0.0.1", "::1", ".svc", "." + v.Cluster.Domain}
	if server, err := url.Parse(v.Cluster.Server); err == nil && server.Hostname() != "" {
		without = append(without, server.Hostname())
	}
	return strings.Join(append(without, v.Proxy.No...), ",")
}

// IsBeyond reports whether a gateway is outside of the networks of all static addresses, so that a route must declare it on the link.
func (v *values) IsBeyond(gateway netip.Addr) bool {
	return !gateway.IsLinkLocalUnicast() && !slices.ContainsFunc(v.Network.Addresses, func(own netip.Prefix) bool {
		return own.Masked().Contains(gateway.Unmap())
	})
}

// NetworkMethod returns how an interface gets its addresses, in NetworkManager's terms.
func (v *values) NetworkMethod(family Families) string {
	switch {
	case len(v.NetworkAddresses(family)) > 0:
		return "manual"
	case len(v.Network.Addresses) > 0 || v.Families != DualStack && v.Families != family:
		return "disabled"
	}
	return "auto"
}

// NetworkAddresses returns the static addresses of a family.
func (v *values) NetworkAddresses(family Families) []netip.Prefix {
	return ofFamily(v.Network.Addresses, netip.Prefix.Addr, family)
}

// NetworkGateways returns the gateways of a family.
func (v *values) NetworkGateways(family Families) []netip.Addr {
	return ofFamily(v.Network.Gateways, netip.Addr.Unmap, family)
}

// NetworkDNS returns the name servers of a family.
func (v *values) NetworkDNS(family Families) []netip.Addr {
	return ofFamily(v.Network.DNS, netip.Addr.Unmap, family)
}

func ofFamily[T any](all []T, address func(T) netip.Addr, family Families) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return address(one).Is4() != (family == IPv4) })
}
