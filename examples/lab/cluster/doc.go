// Package cluster starts, kills, freezes, restarts and stops a real Kubernetes control plane on this computer: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and kwok or hollow kubelets. It downloads only Go modules:
// the go command builds the programs once from the module in ../bin into the user's cache directory.
//
// A test needs three lines:
//
//	plane, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr})
//	require.NoError(t, err)
//	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
//
// A created Node becomes Ready, the pods of a Deployment run on that Node, and an evicted or deleted pod is gone after
// Options.PodTermination.
//
// StartKubelet runs the kubelet's own code in a process, over a fake container runtime; a provider.Driver among the end-to-end tests boots
// it from rendered first-boot data.
//
// # Guarantees
//
//   - Everything listens on 127.0.0.1 only, on ports that were free, with TLS and RBAC; kwok's health port
//     is the one without TLS. The keys live in a directory that only this user can read.
//   - A control plane that Start returned leaves no process and no file once Stop has returned. The same holds, a moment
//     later, when the starting process ends in any other way, kill -9 included: every component reads a pipe and ends
//     when its other end closes, and one more process then deletes the directory.
//   - A component that is killed or ends by itself can be started again with the same ports and the same data. A frozen one
//     (ControlPlane.Freeze) is killed, restarted and stopped like any other, and leaves nothing behind either.
//   - The audit log holds exactly one event for each request, written before its response ends, so a
//     request that has been answered has been counted.
//
// # Limits
//
//   - Unix only.
//   - The first build takes five minutes or so on two cores, needs 3 GB of memory and some GB of disk (the go command's
//     build cache included), and the sources of ../bin, so a checkout of this repository. Built programs of
//     older sources stay in the cache directory until they are deleted by hand.
//   - No container ever runs: logs, exec and port-forward fail.
//   - A "go build" or "go run" that is killed may leave the go command's own work directory, as everywhere.
//   - etcd does not sync its files: a crash of the computer, unlike one of etcd, may lose data.
//   - Garbage collection needs up to 30 s to notice a new CRD (the controller manager's own interval).
package cluster
