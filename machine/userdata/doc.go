// Package userdata renders a machine's first-boot data: cloud-init for Ubuntu 24.04, RHEL 9 and Rocky 9, Ignition for Flatcar.
//
// It uses no client, no clock and no random numbers: equal input gives equal bytes.
//
//	system, err := userdata.Builtin(userdata.Ubuntu2404)
//	doc, err := userdata.Render(system, userdata.Config{Version: "v1.36.3", Cluster: ..., Node: ...})
//	doc, err = doc.Fit(userdata.Budget{Bytes: 16 << 10, Binary: true})
//	request.UserData = doc.Bytes() // of package machine/provider
//
// A machine configures its network, installs containerd and a kubelet, and joins its cluster with a bootstrap token. For that it trusts
// only the CA of the Config. Labels and taints are registered with the Node, including the taint node.cluster.x-k8s.io/uninitialized. Once
// the kubelet has its certificate, [SentinelFile] exists, as Cluster API's bootstrap contract requires. A systemd unit repeats the steps
// until they succeed. SELinux stays enabled.
//
// # Templates
//
// A [System] is read from a JSON manifest and the sources that it lists; [Templates] contains those of the built-in systems, to copy or
// overlay, and [Load] reads yours. A [File] replaces the template with its path, and Config.Kubelet changes the KubeletConfiguration. A
// mirror of packages is a value of the manifest; the example of [Templates] sets one.
//
// # Hostile values
//
// A value stays one value, whatever its text:
//
//   - Shell scripts are not templates. They read values from files.
//   - Every value that another template prints is quoted for the language of the file, as in html/template. The extension of the source
//     selects the language: .env, .json, .toml, .pem. A file of a language without reliable quotes (.conf, .service) accepts plain values
//     only; others are an error.
//   - A cloud-config is JSON, which is YAML as well; contents with unusual characters are base64.
//   - Values with which a machine could not boot or join are errors of [Render], which reports all of them with the paths of fields.
//
// Secret values are [Secret]s, which fmt, JSON and loggers do not show. A [Document] shows only its size. No error contains a value of the
// Config.
//
// # Machines of Kubermatic
//
// [ParseProviderSpec] reads the content of such a Machine, and [ProviderSpec.Config] returns the Config of its first boot.
//
// # Size
//
// Clouds limit first-boot data; [Budget] lists some limits. [Document.Fit] compresses if needed and accepted, or returns an error. The
// uncompressed documents for all systems fit into the 16 KiB of AWS.
//
// Larger data boots in two stages: [RenderStages] returns a small document, which reads the rest from a Secret of the cluster, and the Role
// and RoleBinding that allow reading only this Secret. The first stage has the same bootstrap token, so reading it gives no more rights
// than a single stage. It trusts the pinned CA only, and writes the token to a file of mode 0600.
//
// # Limits
//
// Use a separate bootstrap token for each machine ([TokenSecret]). A kubelet may set only some labels of kubernetes.io on its Node; others
// are propagated from the Machine. The keys of package repositories come from the repositories over TLS. A RHEL that its image does not
// register needs packages from elsewhere: register it in a template of your own.
//
// Kubermatic's operating-system-manager and Gardener's machine-controller-manager use text templates of shell instead. Compared to the
// first, the data of the second stage is fetched with a verified certificate, and a token cannot read the data of other machines.
package userdata
