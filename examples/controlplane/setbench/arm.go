package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/examples/controlplane/bench"
	"github.com/machinist-dev/machinist/examples/controlplane/capi"
	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
)

const (
	ourPackage = "github.com/machinist-dev/machinist/examples/manager"
	// ourAgent is the beginning of the user agents of examples/manager.
	ourAgent   = "machinist-manager"
	readyLimit = 2 * time.Minute
	readyPoll  = 200 * time.Millisecond
)

// buildPrograms builds what the arms need. It comes before the control plane runs, which would be in the way of the compiler.
func buildPrograms(ctx context.Context, arms []string, dir string, say bench.Say) (map[string]string, error) {
	built := map[string]string{}
	for _, a := range arms {
		if a == armCAPI {
			program, err := capi.BuildManager(ctx, say)
			if err != nil {
				return nil, err
			}
			built[a] = program
			continue
		}
		built[a] = filepath.Join(dir, "manager")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", built[a], ourPackage).CombinedOutput(); err != nil {
			return nil, errors.Join(context.Cause(ctx), fmt.Errorf("go build %s: %w\n%s", ourPackage, err, out))
		}
	}
	return built, nil
}

// manager is a running arm.
type manager struct {
	*bench.Process

	agent string // by which the audit log knows it
}

// startManager starts an arm and returns when it says that it is ready.
func startManager(ctx context.Context, program, arm string, plane *cluster.ControlPlane) (*manager, error) {
	port, err := bench.FreePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	m := &manager{agent: ourAgent}
	if arm == armCAPI {
		m.agent = capi.UserAgent
		m.Process, err = capi.StartManager(capi.ManagerOptions{
			Program: program, Kubeconfig: plane.Kubeconfig(), Dir: plane.Dir(), Flags: []string{"--health-addr=" + address},
		})
	} else {
		log := filepath.Join(plane.Dir(), fmt.Sprintf("manager-%d.log", port))
		m.Process, err = bench.StartProcess("our manager", log, nil, program, "--machinesets", "--machinedeployments", "--workload-clusters",
			"--kube-api-qps=100", "--workload-api-qps=20", "--kubeconfig="+plane.Kubeconfig(), "--health-probe-bind-address="+address)
	}
	if err != nil {
		return nil, err
	}
	err = m.While(ctx, func(ctx context.Context) error {
		return wait.PollUntilContextTimeout(ctx, readyPoll, readyLimit, true, func(ctx context.Context) (bool, error) {
			return isReady(ctx, "http://"+address+"/readyz"), nil
		})
	})
	if err != nil {
		m.Stop()
		return nil, fmt.Errorf("wait for the manager to be ready: %w", err)
	}
	return m, nil
}

func isReady(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
