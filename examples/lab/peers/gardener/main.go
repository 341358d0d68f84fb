// Command gardener is Gardener's machine-controller-manager as its users run it: the manager of sets and deployments, and in another
// process the controller of Machines with a driver. The driver makes Nodes that kwok simulates, as the driver of examples/manager does.
//
//	gardener manager FLAGS | gardener driver FLAGS
package main

import (
	"fmt"
	"os"

	managerapp "github.com/gardener/machine-controller-manager/cmd/machine-controller-manager/app"
	manageroptions "github.com/gardener/machine-controller-manager/cmd/machine-controller-manager/app/options"
	driverapp "github.com/gardener/machine-controller-manager/pkg/util/provider/app"
	driveroptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	fmt.Fprintln(os.Stderr, run(os.Args[1:])) // the programs do not end without an error
	os.Exit(1)
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no program: give manager or driver")
	}
	flags := pflag.NewFlagSet(args[0], pflag.ContinueOnError)
	switch args[0] {
	case "manager":
		server := manageroptions.NewMCMServer()
		server.AddFlags(flags)
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return managerapp.Run(server)
	case "driver":
		server, nodes := driveroptions.NewMCServer(), &nodes{}
		server.AddFlags(flags)
		flags.DurationVar(&nodes.latency, "driver-latency", 0, "how long each call to the driver takes")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		config, err := clientcmd.BuildConfigFromFlags("", server.TargetKubeconfig)
		if err != nil {
			return err
		}
		config.QPS, config.UserAgent = -1, "bench-provider"
		if nodes.client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		return driverapp.Run(server, nodes)
	}
	return fmt.Errorf("no program %q: give manager or driver", args[0])
}
