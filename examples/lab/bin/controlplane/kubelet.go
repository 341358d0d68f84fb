package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fakeremote "k8s.io/cri-client/pkg/fake"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/kubemark"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
)

// runtimeEndpoint is the socket of the fake container runtime, in the working directory. The detour keeps the path below the 107
// characters that Linux allows.
const runtimeEndpoint = "unix:///proc/self/cwd/cri.sock"

// newKubeletCommand is the kubelet without a host: its own flags, configuration file, bootstrap, registration, leases and pod workers,
// over a fake container runtime and a fake file system. It needs a working directory of its own, in which it leaves all its files.
func newKubeletCommand() *cobra.Command {
	flags := options.NewKubeletFlags()
	command := &cobra.Command{
		Use:  "kubelet",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return runKubelet(genericapiserver.SetupSignalContext(), flags)
		},
	}
	flags.AddFlags(command.Flags())
	return command
}

func runKubelet(ctx context.Context, flags *options.KubeletFlags) error {
	config, err := kubeletConfiguration(ctx, flags.KubeletConfigFile)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := makeHollow(dir, flags, config); err != nil {
		return err
	}
	runtime := fakeremote.NewFakeRemoteRuntime()
	if err := runtime.Start(runtimeEndpoint); err != nil {
		return fmt.Errorf("start the fake container runtime: %w", err)
	}
	defer runtime.Stop()
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	return kubeletapp.Run(ctx, server, hollowDependencies(flags, config, runtime), utilfeature.DefaultFeatureGate)
}

// kubeletConfiguration reads the file as the kubelet does.
func kubeletConfiguration(ctx context.Context, path string) (*kubeletconfig.KubeletConfiguration, error) {
	if path == "" {
		return options.NewKubeletConfiguration()
	}
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, path)
	if err != nil {
		return nil, err
	}
	return loader.Load(ctx)
}

// makeHollow replaces what needs a host, and leaves all else as it is. There is no server: a fake runtime has no logs, and the
// kubelet's port would not be on loopback.
func makeHollow(dir string, flags *options.KubeletFlags, config *kubeletconfig.KubeletConfiguration) error {
	flags.RootDirectory = filepath.Join(dir, "root")
	config.PodLogsDir = filepath.Join(dir, "pod-logs")
	for _, path := range []string{flags.RootDirectory, config.PodLogsDir} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
	}
	config.EnableServer = false
	config.HealthzPort, config.ReadOnlyPort = 0, 0
	config.StaticPodPath = ""
	config.Authentication.X509.ClientCAFile = ""
	config.ContainerRuntimeEndpoint, config.ImageServiceEndpoint = runtimeEndpoint, runtimeEndpoint
	config.CgroupsPerQOS, config.CgroupRoot, config.CgroupDriver = false, "", "cgroupfs"
	config.KubeletCgroups, config.SystemCgroups = "", ""
	config.EnforceNodeAllocatable = nil
	config.ProtectKernelDefaults, config.MakeIPTablesUtilChains = false, false
	config.FailSwapOn, config.FailCgroupV1 = false, false
	config.ResolverConfig = ""
	config.MaxOpenFiles = 1024
	return nil
}

// hollowDependencies are those of Kubernetes' own hollow kubelet, but for the clients: the kubelet makes them from its kubeconfig files.
func hollowDependencies(
	flags *options.KubeletFlags, config *kubeletconfig.KubeletConfiguration, runtime *fakeremote.RemoteRuntime,
) *kubelet.Dependencies {
	dependencies := kubemark.NewHollowKubelet(flags, config, nil, nil, &cadvisortest.Fake{NodeName: flags.HostnameOverride},
		runtime.ImageService, runtime.RuntimeService, cm.NewStubContainerManager()).KubeletDeps
	dependencies.KubeClient, dependencies.HeartbeatClient, dependencies.EventClient = nil, nil, nil
	return dependencies
}
