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
	// ourAgent is the start of the user agents of examples/manager.
	ourAgent = "machinist-manager"

	// Cluster API's default client limits, for the Machines' cluster and for the Nodes' cluster.
	defaultQPS, defaultWorkloadQPS = 100, 20

	readyLimit = 2 * time.Minute
	readyPoll  = 200 * time.Millisecond
)

// programs are the built managers of the arms.
type programs map[armName]string

// buildPrograms builds the programs of the arms, before the control plane runs, because the compiler needs the CPU.
func buildPrograms(ctx context.Context, arms []armName, dir string, say bench.Say) (programs, error) {
	built := programs{}
	for _, a := range arms {
		var err error
		switch a {
		case armCAPI:
			built[a], err = capi.BuildManager(ctx, say)
		default:
			built[a], err = buildOurs(ctx, dir)
		}
		if err != nil {
			return nil, err
		}
	}
	return built, nil
}

func buildOurs(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "manager")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ourPackage).CombinedOutput()
	if err != nil {
		return "", errors.Join(context.Cause(ctx), fmt.Errorf("go build %s: %w\n%s", ourPackage, err, out))
	}
	return program, nil
}

// manager is a running arm.
type manager struct {
	*bench.Process
	probes

	agent string // its user agent in the audit log
}

// startManager starts an arm and returns when it is ready.
func startManager(ctx context.Context, built programs, a armName, l limitName, plane *cluster.ControlPlane) (*manager, error) {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = bench.FreePort(); err != nil {
			return nil, err
		}
	}
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	m := &manager{probes: probes{
		ready: "http://" + address(0) + "/readyz", metrics: "http://" + address(1) + "/metrics", heap: "http://" + address(2) + heapPath,
	}}
	var err error
	if a == armCAPI {
		m.agent = capi.UserAgent
		m.Process, err = capi.StartManager(capi.ManagerOptions{
			Program: built[a], Kubeconfig: plane.Kubeconfig(), Dir: plane.Dir(),
			Flags: append(capiFlags(l), "--health-addr="+address(0), "--diagnostics-address="+address(1), "--profiler-address="+address(2)),
		})
	} else {
		m.agent = ourAgent
		log := filepath.Join(plane.Dir(), fmt.Sprintf("manager-%d.log", ports[0]))
		flags := append(ourFlags(l), "--kubeconfig="+plane.Kubeconfig(), "--health-probe-bind-address="+address(0),
			"--metrics-bind-address="+address(1), "--profiler-address="+address(2))
		m.Process, err = bench.StartProcess("our manager", log, nil, built[a], flags...)
	}
	if err != nil {
		return nil, err
	}
	if err := m.While(ctx, m.waitReady); err != nil {
		m.Stop()
		return nil, fmt.Errorf("wait for the manager to be ready: %w", err)
	}
	return m, nil
}

// ourFlags are the flags of examples/manager for the limits and the common configuration.
func ourFlags(l limitName) []string {
	flags := []string{"--workload-clusters"}
	if l == limitDefault {
		return append(flags, fmt.Sprintf("--kube-api-qps=%d", defaultQPS), fmt.Sprintf("--workload-api-qps=%d", defaultWorkloadQPS))
	}
	return append(flags, "--kube-api-qps=-1", "--workload-api-qps=-1")
}

// capiFlags are the flags of Cluster API's manager; none for its default limits.
func capiFlags(l limitName) []string {
	if l == limitDefault {
		return nil
	}
	return capi.Unlimited()
}

func (m *manager) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("it is not ready after %s", readyLimit))
	defer cancel()
	return wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		_, err := fetch(ctx, m.ready)
		var answer *answerError
		if errors.As(err, &answer) && answer.code != http.StatusInternalServerError {
			return false, err
		}
		return err == nil, nil
	})
}
