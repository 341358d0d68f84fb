package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// member is an optional part of a Config, and the ways in which it can be filled. The first one leaves it absent.
type member struct {
	name string
	ways []func(*userdata.Config)
}

// set returns a member that is absent, or has one of some values.
func set[T any](name string, into func(*userdata.Config) *T, values ...T) member {
	m := member{name: name, ways: []func(*userdata.Config){func(*userdata.Config) {}}}
	for _, value := range values {
		m.ways = append(m.ways, func(c *userdata.Config) { *into(c) = value })
	}
	return m
}

func families() member {
	return set("Families", func(c *userdata.Config) *userdata.Families { return &c.Families }, userdata.IPv6, userdata.DualStack)
}

func network() member {
	return set("Network", func(c *userdata.Config) **userdata.Network { return &c.Network }, &userdata.Network{})
}

// members are all optional parts. Later ones look at earlier ones: addresses are of the families, and what needs a network does nothing
// without one.
func members(ca string) []member {
	secret := userdata.NewSecret
	return append([]member{
		families(),
		set("Node.Name", func(c *userdata.Config) *string { return &c.Node.Name }, "worker-7", "worker-7.example.com"),
		set("Node.ProviderID", func(c *userdata.Config) *string { return &c.Node.ProviderID }, "i-0123", "example://zone-1/i-0123"),
		set("Node.Labels", func(c *userdata.Config) *map[string]string { return &c.Node.Labels },
			map[string]string{}, map[string]string{"example.com/pool": "green", "example.com/empty": ""}),
		set("Node.Taints", func(c *userdata.Config) *[]corev1.Taint { return &c.Node.Taints },
			[]corev1.Taint{}, []corev1.Taint{{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}}),
		set("Node.OmitUninitialized", func(c *userdata.Config) *bool { return &c.Node.OmitUninitialized }, true),
		set("Kubelet", func(c *userdata.Config) *json.RawMessage { return &c.Kubelet },
			json.RawMessage(`{}`), json.RawMessage(`{"maxPods": 60, "evictionHard": null}`)),
		set("Cluster.Domain", func(c *userdata.Config) *string { return &c.Cluster.Domain }, "k8s.example.com"),
		set("Cluster.ExternalCloudProvider", func(c *userdata.Config) *bool { return &c.Cluster.ExternalCloudProvider }, true),
		set("Proxy.HTTP", func(c *userdata.Config) *userdata.Secret { return &c.Proxy.HTTP }, secret(proxy)),
		set("Proxy.HTTPS", func(c *userdata.Config) *userdata.Secret { return &c.Proxy.HTTPS }, secret("http://proxy.example.com:3128")),
		set("Proxy.No", func(c *userdata.Config) *[]string { return &c.Proxy.No }, []string{}, []string{"192.0.2.0/24", ".example.com"}),
		set("SSHKeys", func(c *userdata.Config) *[]string { return &c.SSHKeys }, []string{}, []string{sshKey}),
		set("HostCAs", func(c *userdata.Config) *string { return &c.HostCAs }, ca, ca+ca),
		set("SandboxImage", func(c *userdata.Config) *string { return &c.SandboxImage }, "registry.example.com/pause:3.10.1"),
		set("Files", func(c *userdata.Config) *[]userdata.File { return &c.Files },
			[]userdata.File{}, []userdata.File{{Path: "/etc/motd", Content: secret("Grüße\n")}, {Path: "/etc/empty"}}),
		set("Upgrade", func(c *userdata.Config) *bool { return &c.Upgrade }, true),
		network(),
	}, addresses()...)
}

// addresses are the members that have some.
func addresses() []member {
	plain := func(texts ...string) func(*userdata.Config) []netip.Addr {
		return func(c *userdata.Config) (all []netip.Addr) {
			all = []netip.Addr{}
			for _, text := range texts {
				a := netip.MustParseAddr(text)
				if a.Is4() && c.Families != userdata.IPv6 || !a.Is4() && c.Families != "" {
					all = append(all, a)
				}
			}
			return all
		}
	}
	static := func(c *userdata.Config) {
		for _, a := range plain("192.0.2.7", "2001:db8::7")(c) {
			c.Network.Addresses = append(c.Network.Addresses, netip.PrefixFrom(a, a.BitLen()-8))
		}
	}
	absent := func(*userdata.Config) {}
	wired := func(set func(*userdata.Config)) func(*userdata.Config) {
		return func(c *userdata.Config) {
			if c.Network != nil {
				set(c)
			}
		}
	}
	gateways := func(texts ...string) func(*userdata.Config) {
		return wired(func(c *userdata.Config) {
			if len(c.Network.Addresses) > 0 {
				c.Network.Gateways = plain(texts...)(c)
			}
		})
	}
	servers := func(texts ...string) func(*userdata.Config) {
		return wired(func(c *userdata.Config) { c.Network.DNS = plain(texts...)(c) })
	}
	return []member{
		{"Node.Addresses", []func(*userdata.Config){absent, func(c *userdata.Config) { c.Node.Addresses = plain()(c) },
			func(c *userdata.Config) { c.Node.Addresses = plain("192.0.2.7", "2001:db8::7")(c) }}},
		{"Cluster.DNS", []func(*userdata.Config){absent, func(c *userdata.Config) { c.Cluster.DNS = plain()(c) },
			func(c *userdata.Config) { c.Cluster.DNS = plain("10.96.0.10", "fd00:96::a")(c) }}},
		{"Network.Addresses", []func(*userdata.Config){absent, wired(static)}},
		{"Network.Gateways", []func(*userdata.Config){absent, gateways(), gateways("192.0.2.254", "2001:db8::fe"),
			gateways("198.51.100.1", "fe80::1"), gateways("198.51.100.1", "2001:db8:f::1")}},
		{"Network.DNS", []func(*userdata.Config){absent, servers(), servers("192.0.2.53", "2001:db8::53")}},
		{"Network.MTU", []func(*userdata.Config){absent, wired(func(c *userdata.Config) { c.Network.MTU = 1400 })}},
	}
}

// row is a way of each member.
type row []int

// config fills a Config.
func (r row) config(base userdata.Config, all []member) userdata.Config {
	for i, m := range all {
		m.ways[r[i]](&base)
		if base.Network != nil && base.Network.Interface == "" { // of this Config alone
			base.Network = &userdata.Network{Interface: "eth0"}
		}
	}
	return base
}

// pair are two ways of two members.
type pair struct{ first, way, second, other int }

// inPairs returns rows in which each two ways of each two members occur together.
func inPairs(all []member) (rows []row) {
	left := map[pair]bool{}
	var order []pair
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			for a := range all[i].ways {
				for b := range all[j].ways {
					p := pair{i, a, j, b}
					left[p], order = true, append(order, p)
				}
			}
		}
	}
	for _, p := range order {
		if !left[p] {
			continue
		}
		r := filled(all, p, left)
		rows = append(rows, r)
		for i := range r {
			for j := i + 1; j < len(r); j++ {
				delete(left, pair{i, r[i], j, r[j]})
			}
		}
	}
	return rows
}

// filled returns a row with a pair, in which each other member has the way that is in the most pairs that are left.
func filled(all []member, p pair, left map[pair]bool) row {
	r := slices.Repeat(row{-1}, len(all))
	r[p.first], r[p.second] = p.way, p.other
	for i := range r {
		if r[i] >= 0 {
			continue
		}
		best := -1
		for way := range all[i].ways {
			count := 0
			for j, other := range r {
				switch {
				case other < 0:
				case j < i && left[pair{j, other, i, way}], j > i && left[pair{i, way, j, other}]:
					count++
				}
			}
			if count > best {
				r[i], best = way, count
			}
		}
	}
	return r
}

// networks are configurations with a network, whose parts are in pairs.
func networks(base userdata.Config) (all []userdata.Config) {
	there := network()
	there.ways = there.ways[1:]
	parts := append([]member{families(), there}, addresses()...)
	for _, r := range inPairs(parts) {
		all = append(all, r.config(base, parts))
	}
	return all
}

// partly renders configurations of which each optional member is absent, empty or set, in pairs, for each system.
func partly() (map[string][]document, error) {
	ca, err := newCA()
	if err != nil {
		return nil, err
	}
	optional, all := members(ca), map[string][]document{}
	for _, name := range userdata.Names() {
		system, err := userdata.Builtin(name)
		if err != nil {
			return nil, err
		}
		versions := system.Versions()
		base := userdata.Config{Version: versions[len(versions)-1] + ".3",
			Cluster: userdata.Cluster{Server: "https://192.0.2.1:6443", CA: ca, Token: userdata.NewSecret(token)}}
		configs := networks(base)
		for _, r := range inPairs(optional) {
			configs = append(configs, r.config(base, optional))
		}
		for i, config := range configs {
			d := document{name: fmt.Sprintf("%s_partly_%02d", name, i), system: system, config: config}
			if err := d.render(); err != nil {
				return nil, err
			}
			all[name] = append(all[name], d)
		}
	}
	return all, nil
}
