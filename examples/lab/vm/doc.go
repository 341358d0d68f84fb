// Package vm boots real machines on this computer: a provider.Driver of QEMU's virtual machines, and a disk of Debian's packages for them.
//
//	image, err := vm.MakeImage(ctx, kubelet, os.Stderr) // cluster.BuildKubelet builds the kubelet
//	driver := vm.New(image, filepath.Join(plane.Dir(), "machines"))
//
// A machine is emulated where there is no /dev/kvm: it boots in minutes, then. It reads its first-boot data as in a cloud, with cloud-init
// from a disk (NoCloud). Its network is QEMU's user mode, so nothing on this computer is configured for it: the machine reaches
// this computer's loopback as [Host], and nothing reaches the machine. All machines have the same address, in a network of their own each.
//
// Machines end with this process, however it ends. Their files are in a folder that the caller deletes. Linux on amd64 only, with root for
// [MakeImage], and with the programs that make e2e-vm installs.
package vm
