// Package userdata renders what a machine does at its first boot: cloud-init for Ubuntu 24.04, RHEL 9 and Rocky 9, Ignition for Flatcar.
//
// Values go in, bytes come out. There is no client, no clock and no chance, so equal input gives equal bytes.
//
//	system, err := userdata.Builtin(userdata.Ubuntu2404)
//	doc, err := userdata.Render(system, userdata.Config{Version: "v1.36.3", Cluster: ..., Node: ...})
//	budget, known := userdata.BudgetOf("AWS")
//	doc, err = doc.Fit(budget)
//	request.UserData = doc.Bytes() // of package machine/provider
//
// A machine configures its network, installs containerd and a kubelet, and joins its cluster with a bootstrap token. It trusts only the
// CA of the Config for that. Labels and taints are registered with the Node, the taint node.cluster.x-k8s.io/uninitialized
// among them. Once the kubelet has its certificate, [SentinelFile] is there, as Cluster API's bootstrap contract asks. A unit of
// systemd runs the steps again until they succeed. SELinux stays on.
//
// # Templates
//
// Templates are data. A [System] is read from a manifest in JSON and the sources that it lists; [Templates] has those of the built-in
// systems, to copy or overlay, and [Load] reads yours. One file is replaced by a [File] with its path, and the KubeletConfiguration is
// changed by Config.Kubelet. A mirror of packages is a value of the manifest; the example of [Templates] sets one.
//
// # Hostile values
//
// A value stays one value, whatever its text is:
//
//   - Shell scripts are no templates. They read values from files.
//   - Every value that another template prints is quoted for the language of the file, as html/template does. The extension of the
//     source says which: .env, .json, .toml, .pem. A file of a language without reliable quotes (.conf, .service) holds plain values
//     only, and others are an error.
//   - A cloud-config is JSON, which is YAML as well; contents with unusual characters are base64.
//   - What a machine could not boot or join with is an error of [Render], which has everything that is wrong, with the paths of fields.
//
// What is secret is a [Secret], which fmt, JSON and loggers do not show. A [Document] shows only its size. No error has a value
// of the Config in it.
//
// # Machines of Kubermatic
//
// [ParseProviderSpec] reads what such a Machine contains, and [ProviderSpec.Config] returns the Config of its first boot.
//
// # Size
//
// Clouds limit first-boot data; [BudgetOf] returns the limit of a cloud. [Document.Fit] compresses where that is
// needed and accepted, or returns an error. The documents for all systems fit into the 16 KiB of AWS as they are.
//
// What does not fit boots in two stages: [RenderStages] returns a small document, which gets the rest from a Secret of the cluster, and
// the Role and RoleBinding that allow to get this Secret and no other. The first stage has the same bootstrap token, so reading it
// gives no right that one stage would not have given. It trusts the pinned CA only, and writes the token to a file of mode 0600.
//
// # Limits
//
// Use one bootstrap token for each machine ([TokenSecret]). A kubelet gives itself only some labels of kubernetes.io; others are
// propagated from the Machine. The keys of package repositories come from the repositories over TLS. A
// RHEL that is not registered by its image needs packages from somewhere: register it in a template of your own.
//
// Kubermatic's operating-system-manager and Gardener's machine-controller-manager do the same with text templates of shell. Compared to the
// first, the data of the second stage is fetched with a verified certificate, and a token cannot read the data of other machines.
package userdata
