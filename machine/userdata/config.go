package userdata

import (
	"encoding/json"
	"io/fs"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Architecture is that of a machine, as Kubernetes and Go name it.
type Architecture string

// Architectures.
const (
	AMD64 Architecture = "amd64"
	ARM64 Architecture = "arm64"
)

// Families are the IP families of a cluster's Nodes.
type Families string

// IP families. DualStack is IPv4 first.
const (
	IPv4      Families = "IPv4"
	IPv6      Families = "IPv6"
	DualStack Families = "DualStack"
)

// Config is what a machine needs to know at its first boot. Render changes nothing in it and keeps nothing of it. What is secret has the
// type Secret, so that a Config can be printed.
type Config struct {
	// Version is the Kubernetes version, with its leading v and a patch version, such as v1.36.3.
	Version string
	// Architecture is AMD64 without a value.
	Architecture Architecture
	// Families are IPv4 without a value.
	Families Families
	// Cluster is what the machine joins, Node is what it becomes.
	Cluster Cluster
	Node    Node
	// Kubelet is merged into the KubeletConfiguration as a JSON merge patch (RFC 7386); nil changes nothing. It must not
	// set what Node and Cluster set.
	Kubelet json.RawMessage
	// Network is how the machine reaches its network; nil leaves that to the image.
	Network *Network
	// Proxy is what packages and images are downloaded through.
	Proxy Proxy
	// Upgrade has Ubuntu, RHEL and Rocky upgrade all packages before the machine joins. Flatcar's image has the versions that it has.
	Upgrade bool
	// SSHKeys are lines as in authorized_keys, without options, for the default user of the system.
	SSHKeys []string
	// HostCAs are certificates in PEM that the whole machine trusts in addition, for example that of a mirror.
	HostCAs string
	// SandboxImage is the pause image; without a value it is the one of the container runtime.
	SandboxImage string
	// Files are written in addition. One with the path of a template takes the place of that.
	Files []File
	// Parameters are values for templates of your own.
	Parameters map[string]Secret
}

// Cluster is what a machine joins.
type Cluster struct {
	// Server is the URL of the API server, for example https://192.0.2.1:6443.
	Server string
	// CA is the PEM of the certificates that sign the server's, and nothing else is trusted for it.
	CA string
	// Token is a bootstrap token, ID.SECRET. Use one for each machine, and let it expire soon: TokenSecret makes its object.
	Token Secret
	// DNS are the addresses of the cluster's DNS Service; empty leaves pods with the host's.
	DNS []netip.Addr
	// Domain is that of Services; cluster.local without a value.
	Domain string
	// ExternalCloudProvider says that a cloud controller manager sets provider ID and addresses. The kubelet then registers the Node with
	// the taint node.cloudprovider.kubernetes.io/uninitialized.
	ExternalCloudProvider bool
}

// Node is what a machine becomes. Labels and taints are there from the first moment.
type Node struct {
	// Name is that of the Node and the host name; without a value the cloud decides.
	Name string
	// ProviderID is reported by the kubelet, where it is known before the machine exists; empty otherwise.
	ProviderID string
	// Labels are those that a kubelet may give to itself; others have to be propagated, as package noderef/propagate does.
	Labels map[string]string
	// Taints are registered with the Node, and with them node.cluster.x-k8s.io/uninitialized:NoSchedule, which says that nothing has been
	// propagated yet. The Machine reconciler removes it. A taint that the Machine has too, with the propagation OnInitialization, comes back
	// once when the agent that removes it does so before the first propagation.
	Taints []corev1.Taint
	// OmitUninitialized leaves that taint out, for clusters where nothing removes it.
	OmitUninitialized bool
	// Addresses are the Node's own, at most one of each family; without a value the kubelet finds them.
	Addresses []netip.Addr
}

// Network is the configuration of one interface.
type Network struct {
	// Interface is its name, such as eth0.
	Interface string
	// Addresses are static, with the length of their network; without any, DHCP and router advertisements give them.
	Addresses []netip.Prefix
	// Gateways are at most one of each family.
	Gateways []netip.Addr
	// DNS are the name servers of the host.
	DNS []netip.Addr
	// MTU in bytes; zero leaves it alone.
	MTU int
}

// Proxy is an HTTP proxy. The URLs are secret since they may have a password.
type Proxy struct {
	HTTP, HTTPS Secret
	// No are hosts, domains and networks to reach without it, in addition to loopback addresses and Services.
	No []string
}

// File is a file of a machine, owned by root.
type File struct {
	// Path is absolute.
	Path string
	// Mode are the permissions; 0600 without a value.
	Mode fs.FileMode
	// Content may be secret, so it is not printed.
	Content Secret
}
