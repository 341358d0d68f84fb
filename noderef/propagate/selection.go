package propagate

import (
	"regexp"
	"slices"
	"strings"
)

// Domain is a DNS domain in front of the "/" of a label or annotation key.
type Domain struct {
	// Name is the domain, for example "node.cluster.x-k8s.io".
	Name string
	// Subdomains also admits every domain below Name, such as "gpu.node.cluster.x-k8s.io".
	Subdomains bool
}

// Contains reports whether a key belongs to the domain. It compares the part before the first "/", or the whole key if
// there is none.
func (d Domain) Contains(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	if domain == d.Name {
		return true
	}
	below, ok := strings.CutSuffix(domain, d.Name)
	return d.Subdomains && ok && strings.HasSuffix(below, ".")
}

// Selection selects the labels, or annotations, of an owner that its Nodes receive. The zero Selection selects nothing.
// It is safe for concurrent use while it is not changed.
type Selection struct {
	// All selects every key.
	All bool
	// Domains select the keys of these domains.
	Domains []Domain
	// Patterns select the keys that one of them matches anywhere, as Cluster API's --additional-sync-machine-labels
	// does; anchor them with ^ and $ to match the whole key.
	Patterns []*regexp.Regexp
	// Except are patterns of keys that are never selected. Without them a broad pattern may select keys that kubelets
	// and cloud controllers write, such as kubernetes.io/hostname.
	Except []*regexp.Regexp
	// OnlyMissing gives a key only to a Node that does not have it, and keeps any existing value. Default: the owner's
	// value overrides it.
	OnlyMissing bool
}

// Contains reports whether a key is selected. It allocates nothing.
func (s *Selection) Contains(key string) bool {
	return s.includes(key) && !matches(s.Except, key)
}

func (s *Selection) includes(key string) bool {
	return s.All ||
		slices.ContainsFunc(s.Domains, func(d Domain) bool { return d.Contains(key) }) ||
		matches(s.Patterns, key)
}

func matches(patterns []*regexp.Regexp, key string) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(key) })
}

// Pick returns the selected entries in a new map, or nil if there are none. [Policy.Diff] does not need it.
func (s *Selection) Pick(from map[string]string) map[string]string {
	var picked map[string]string
	for key, value := range from {
		if !s.Contains(key) {
			continue
		}
		if picked == nil {
			picked = make(map[string]string)
		}
		picked[key] = value
	}
	return picked
}
