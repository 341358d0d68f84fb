package arm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// The managers.
const (
	Ours     = "ours"
	CAPI     = "capi"
	Gardener = "gardener"
)

// DefaultLimits are the flags of an arm for Cluster API's default client limits, in requests a second, for the cluster of the Machines and
// for that of the Nodes, with bursts of 2 and 1.5 times that. Ours finds Nodes by the kubeconfig Secret of their Cluster, as Cluster API
// does.
func DefaultLimits(name string) []string {
	if name == CAPI {
		return nil
	}
	return []string{"--workload-clusters", "--kube-api-qps=100", "--workload-api-qps=20"}
}

// NoLimits are those of an arm without client limits.
func NoLimits(name string) []string {
	if name == CAPI {
		return []string{"--kube-api-qps=-1", "--clustercache-client-qps=-1"}
	}
	return []string{"--workload-clusters", "--kube-api-qps=-1", "--workload-api-qps=-1"}
}

const (
	ourPackage = "github.com/machinist-dev/machinist/examples/manager"
	// ourAgent is the start of the user agents of examples/manager.
	ourAgent = "machinist-manager"
)

// Programs are the built managers of arms.
type Programs map[string]string

// Build builds the programs of the managers among some arms; ours goes into dir. Call it before the control plane runs,
// because the compiler needs the CPU.
func Build(ctx context.Context, names []string, dir string, printf progress.Printf) (Programs, error) {
	built := Programs{}
	for _, name := range names {
		var err error
		switch name {
		case CAPI:
			built[name], err = BuildCAPI(ctx, printf)
		case Gardener:
			built[name], err = buildGardener(ctx, dir, printf)
		case Ours:
			built[name], err = buildOurs(ctx, dir)
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

// Manager is a running arm. Its methods are safe for concurrent use.
type Manager struct {
	*measure.Process
	probes

	// Agent is the start of its user agents in the audit log.
	Agent string
}

// Start starts an arm with more flags, and returns when it is ready. The caller must call Stop.
func Start(ctx context.Context, built Programs, name string, plane *cluster.ControlPlane, flags ...string) (*Manager, error) {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = measure.FreePort(); err != nil {
			return nil, err
		}
	}
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	m := &Manager{probes: probes{
		ready: "http://" + address(0) + "/readyz", metrics: "http://" + address(1) + "/metrics", heap: "http://" + address(2) + heapPath,
	}}
	var err error
	switch name {
	case CAPI:
		m.Agent = CAPIAgent
		m.Process, err = StartCAPI(built[name], plane, append(flags,
			"--health-addr="+address(0), "--diagnostics-address="+address(1), "--profiler-address="+address(2))...)
	case Gardener: // one port for all
		m.Agent = Gardener + "/"
		m.probes = probes{ready: "http://" + address(0) + "/healthz", metrics: "http://" + address(0) + "/metrics",
			heap: "http://" + address(0) + heapPath}
		m.Process, err = startGardener(built[name], plane, ports[0], flags)
	default:
		m.Agent = ourAgent
		log := filepath.Join(plane.Dir(), fmt.Sprintf("manager-%d.log", ports[0]))
		m.Process, err = measure.StartProcess("our manager", log, nil, built[name], append(flags,
			"--kubeconfig="+plane.Kubeconfig(), "--health-probe-bind-address="+address(0), "--metrics-bind-address="+address(1),
			"--metrics-secure=false", "--profiler-address="+address(2))...)
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

// Group is managers of one arm that share the work. Its figures are sums.
type Group []*Manager

// StartGroup starts managers of one arm, one for each list of flags.
func StartGroup(ctx context.Context, built Programs, name string, plane *cluster.ControlPlane, flags [][]string) (Group, error) {
	var all Group
	for _, own := range flags {
		m, err := Start(ctx, built, name, plane, own...)
		if err != nil {
			all.Stop()
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Stop stops all.
func (g Group) Stop() {
	for _, m := range g {
		m.Stop()
	}
}

// While calls f with a context that also ends with any of the managers.
func (g Group) While(ctx context.Context, f func(context.Context) error) error {
	if len(g) == 0 {
		return f(ctx)
	}
	return g[0].While(ctx, func(ctx context.Context) error { return g[1:].While(ctx, f) })
}

// Rest is that of all: their user agents are the same.
func (g Group) Rest(ctx context.Context, plane *cluster.ControlPlane, since cluster.AuditMark) (cluster.AuditEvents, error) {
	return g[0].Rest(ctx, plane, since)
}

// CPUSeconds returns the CPU time since their starts.
func (g Group) CPUSeconds(ctx context.Context) (float64, error) {
	return g.sum(func(m *Manager) (float64, error) { return m.CPUSeconds(ctx) })
}

// LiveHeap returns their live bytes after garbage collections.
func (g Group) LiveHeap(ctx context.Context) (float64, error) {
	return g.sum(func(m *Manager) (float64, error) { return m.LiveHeap(ctx) })
}

func (g Group) sum(of func(*Manager) (float64, error)) (sum float64, err error) {
	for _, m := range g {
		one, failed := of(m)
		sum, err = sum+one, errors.Join(err, failed)
	}
	return sum, err
}

// PeakMemory is the sum of what each has occupied at most, 0 where the system does not report it.
func (g Group) PeakMemory() (bytes float64) {
	for _, m := range g {
		one, _ := m.PeakMemory()
		bytes += one
	}
	return bytes
}

// CPU returns the CPU time that they took in all. Call it after Stop.
func (g Group) CPU() (all time.Duration) {
	for _, m := range g {
		all += m.CPU()
	}
	return all
}
