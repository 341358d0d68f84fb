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
	// Domains select the keys of these domains.
	Domains []Domain
	// Patterns select the keys that one of them matches anywhere, as Cluster API's --additional-sync-machine-labels
	// does; anchor them with ^ and $ to match the whole key.
	Patterns []*regexp.Regexp
}

// Contains reports whether a key is selected. It allocates nothing.
func (s *Selection) Contains(key string) bool {
	return slices.ContainsFunc(s.Domains, func(d Domain) bool { return d.Contains(key) }) ||
		slices.ContainsFunc(s.Patterns, func(p *regexp.Regexp) bool { return p.MatchString(key) })
}
