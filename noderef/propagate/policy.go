package propagate

import "strings"

// Domain is a DNS domain in front of the "/" of a label or annotation key.
type Domain struct {
	// Name is the domain, for example "node.cluster.x-k8s.io".
	Name string
	// Subdomains also admits every domain below Name, such as "gpu.node.cluster.x-k8s.io".
	Subdomains bool
}

// Contains says whether a key belongs to the domain. What counts is the part before the first "/", or the whole key when it
// has none.
func (d Domain) Contains(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	if domain == d.Name {
		return true
	}
	below, ok := strings.CutSuffix(domain, d.Name)
	return d.Subdomains && ok && strings.HasSuffix(below, ".")
}

// Policy says which labels and annotations of a Machine go to its Node. The zero Policy selects nothing. It is safe for
// concurrent use while it is not changed.
type Policy struct {
	Labels      []Domain
	Annotations []Domain
}

// ClusterAPI returns Cluster API's rules. Labels: node-role.kubernetes.io itself, node-restriction.kubernetes.io and
// node.cluster.x-k8s.io with their subdomains. Annotations: node.cluster.x-k8s.io with its subdomains. (Cluster API book,
// "Metadata propagation".)
func ClusterAPI() Policy {
	return Policy{
		Labels: []Domain{
			{Name: "node-role.kubernetes.io"},
			{Name: "node-restriction.kubernetes.io", Subdomains: true},
			{Name: "node.cluster.x-k8s.io", Subdomains: true},
		},
		Annotations: []Domain{
			{Name: "node.cluster.x-k8s.io", Subdomains: true},
		},
	}
}

// SelectLabels returns the labels that go to the Node in a new map, or nil when there are none.
func (p Policy) SelectLabels(labels map[string]string) map[string]string {
	return pick(labels, p.Labels)
}

// SelectAnnotations returns the annotations that go to the Node in a new map, or nil when there are none.
func (p Policy) SelectAnnotations(annotations map[string]string) map[string]string {
	return pick(annotations, p.Annotations)
}

func pick(from map[string]string, domains []Domain) map[string]string {
	var picked map[string]string
	for key, value := range from {
		for _, d := range domains {
			if !d.Contains(key) {
				continue
			}
			if picked == nil {
				picked = make(map[string]string)
			}
			picked[key] = value
			break
		}
	}
	return picked
}
