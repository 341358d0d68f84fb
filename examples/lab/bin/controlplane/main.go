// Command controlplane is etcd, kube-apiserver, kube-controller-manager, kube-scheduler, a kubelet without a host and kubectl in
// one file: the first argument selects the program, the others are its flags.
//
// It is the only program here that links k8s.io/kubernetes, and the package in ../../cluster builds it. It has two more
// commands, because a killed control plane must not leave data behind: "version" prints the versions of the components,
// and "sweep DIR" deletes DIR when no process has the other end of file descriptor 3 open any more.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // CronJobs with a time zone must not depend on the host's zone files

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	componentversion "k8s.io/component-base/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/machinist-dev/machinist/examples/lab/bin/lifeline"
)

const usage = `usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kubectl [flags]
       controlplane sweep DIR
       controlplane version`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	component := os.Args[1]
	// Each component parses os.Args itself, so its own name must come first.
	os.Args = os.Args[1:]
	switch component {
	case "version":
		fmt.Printf("kubernetes %s, etcd %s\n", componentversion.Get().GitVersion, version.Version)
	case "sweep":
		os.Exit(sweep(os.Args[1:]))
	case "etcd":
		lifeline.Hold()
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand)
	case "kube-controller-manager":
		run(controllermanager.NewControllerManagerCommand)
	case "kube-scheduler":
		run(func() *cobra.Command { return scheduler.NewSchedulerCommand() })
	case "kubelet":
		run(newKubeletCommand)
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	default:
		fmt.Fprintf(os.Stderr, "controlplane: unknown component %q\n%s\n", component, usage)
		os.Exit(2)
	}
}

func run(newCommand func() *cobra.Command) {
	lifeline.Hold()
	os.Exit(cli.Run(newCommand()))
}

func sweep(args []string) int {
	if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
		fmt.Fprintln(os.Stderr, usage)
		return 2
	}
	// It must outlive all other processes, even if a terminal or a service ends the whole process group.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := lifeline.Sweep(args[0]); err != nil {
		fmt.Fprintf(os.Stderr, "controlplane: sweep: %v\n", err)
		return 1
	}
	return 0
}
