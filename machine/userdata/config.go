package userdata

import (
	"encoding/json"
	"io/fs"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Architecture is the architecture of a machine, as Kubernetes and Go name it.
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

// Config is the input of a machine's first boot. Render neither changes nor keeps it. Secret values have the type Secret, so that a Config
// can be printed.
type Config struct {
	// Version is the Kubernetes version, with its leading v and a patch version, such as v1.36.3.
	Version string
	// Architecture is the architecture. Default AMD64.
	Architecture Architecture
	// Families are the IP families. Default IPv4.
	Families Families
	// Cluster is the cluster that the machine joins, Node the Node that it becomes.
	Cluster Cluster
	Node    Node
	// Kubelet is merged into the KubeletConfiguration as a JSON merge patch (RFC 7386); nil changes nothing. It must not set fields that Node
	// and Cluster set.
	Kubelet json.RawMessage
	// Network is the network configuration of the machine; nil leaves it to the image.
	Network *Network
	// Proxy is the proxy for the downloads of packages and images.
	Proxy Proxy
	// Upgrade makes Ubuntu, RHEL and Rocky upgrade all packages before the machine joins. Flatcar has the versions of its image.
	Upgrade bool
	// SSHKeys are lines as in authorized_keys, without options, for the default user of the system.
	SSHKeys []string
	// HostCAs are PEM certificates that the whole machine trusts in addition, for example that of a mirror.
	HostCAs string
	// SandboxImage is the pause image. Default: that of the container runtime.
	SandboxImage string
	// Files are additional files. A file with the path of a template replaces it.
	Files []File
	// Parameters are values for templates of your own.
	Parameters map[string]Secret
}

// Cluster is the cluster that a machine joins.
type Cluster struct {
	// Server is the URL of the API server, for example https://192.0.2.1:6443.
	Server string
	// CA are the PEM certificates that sign the server's certificate; nothing else is trusted for it.
	CA string
	// Token is a bootstrap token, ID.SECRET. Use a separate token for each machine, and a short expiry; see TokenSecret.
	Token Secret
	// DNS are the addresses of the cluster's DNS Service; if empty, pods use the host's.
	DNS []netip.Addr
	// Domain is the domain of Services. Default cluster.local.
	Domain string
	// ExternalCloudProvider: a cloud controller manager sets provider ID and addresses. The kubelet then registers the Node with the taint
	// node.cloudprovider.kubernetes.io/uninitialized.
	ExternalCloudProvider bool
}

// Node is the Node that a machine becomes. Labels and taints are set at its registration.
type Node struct {
	// Name is the name of the Node and the host name. Default: the cloud decides.
	Name string
	// ProviderID is the provider ID that the kubelet reports, if it is known before the machine exists; otherwise empty.
	ProviderID string
	// Labels are labels that a kubelet may set on its own Node; propagate others with package noderef/propagate.
	Labels map[string]string
	// Taints are registered with the Node, together with node.cluster.x-k8s.io/uninitialized:NoSchedule, which means that nothing has been
	// propagated yet; the Machine reconciler removes it. A taint that the Machine has too, with the propagation OnInitialization, returns once
	// if an agent removes it before the first propagation.
	Taints []corev1.Taint
	// OmitUninitialized omits that taint, for clusters where nothing removes it.
	OmitUninitialized bool
	// Addresses are the Node's own, at most one of each family. Default: the kubelet finds them.
	Addresses []netip.Addr
}

// Network is the configuration of one interface.
type Network struct {
	// Interface is the name of the interface, such as eth0.
	Interface string
	// Addresses are static, with prefix lengths; if empty, DHCP and router advertisements are used.
	Addresses []netip.Prefix
	// Gateways are the gateways, at most one of each family.
	Gateways []netip.Addr
	// DNS are the name servers of the host.
	DNS []netip.Addr
	// MTU is in bytes; zero does not change it.
	MTU int
}

// Proxy is an HTTP proxy. The URLs are secret because they may contain a password.
type Proxy struct {
	HTTP, HTTPS Secret
	// No are hosts, domains and networks that need no proxy, in addition to loopback addresses and Services.
	No []string
}

// File is a file of a machine, owned by root.
type File struct {
	// Path is absolute.
	Path string
	// Mode are the permissions. Default 0600.
	Mode fs.FileMode
	// Content may be secret, so it is not printed.
	Content Secret
}
