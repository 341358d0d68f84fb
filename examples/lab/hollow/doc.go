// Package hollow is a provider.Driver whose instances are kubelets: processes with the kubelet's own code over a fake container runtime.
//
// An instance starts from its first-boot data and nothing else, as a machine does: the bootstrap token, the pinned CA, the name, labels
// and taints of the Node, and the KubeletConfiguration are read from what package machine/userdata rendered. The kubelet gets its
// certificate through a CertificateSigningRequest, registers its Node, and starts and ends pods. So a drain waits for a real kubelet, and
// Driver.Kubelet(...).Kill() makes a dead one.
//
//	plane, err := cluster.Start(ctx, cluster.Options{ManagedNodes: cluster.OtherNodes})
//	err = cluster.AllowBootstrap(ctx, plane.Config())
//	driver := hollow.New(plane)
//	doc, err := hollow.FirstBoot(ctx, plane, userdata.Config{Node: userdata.Node{Name: "worker-7"}})
//	instance, err := driver.Create(ctx, provider.Request{Token: string(machine.UID), Name: "worker-7", UserData: doc.Bytes()})
//
// No container runs: logs and exec fail, images are not pulled, and a container ends as soon as it is asked to. A machine whose first-boot
// data starts no kubelet is an instance that runs and never joins, as everywhere; Instance.Message says why.
package hollow
