// Command kwok simulates kubelets: it is sigs.k8s.io/kwok's controller, unchanged, with the lifeline that ends it with
// the process that started it.
//
// It is a separate program because kwok and the Kubernetes components both define a global --version flag, which one
// process cannot do twice.
//
// "kwok stages" prints the stages of kwok: a Node becomes Ready and renews its Lease, a pod becomes Ready at once, a
// pod in deletion is removed at once. ../../cluster writes the configuration from them.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"

	"github.com/machinist-dev/machinist/examples/lab/bin/lifeline"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "stages" {
		fmt.Println(stages())
		return
	}
	lifeline.Hold()
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "kwok: %v\n", err)
		os.Exit(1)
	}
}

// run parses twice: kwok reads --config and the log flags first, because the file's values become the
// defaults of the command's flags.
func run() error {
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}

	ctx, _ := log.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := config.InitFlags(ctx, global)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(global)
	return command.ExecuteContext(ctx)
}

func stages() string {
	return strings.Join([]string{
		nodefast.DefaultNodeInit,
		nodelease.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}, "\n---\n")
}
