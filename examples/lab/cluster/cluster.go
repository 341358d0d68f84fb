package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

// ErrStopped is matched by the errors of a stopped ControlPlane.
var ErrStopped = errors.New("the control plane has been stopped")

// ControlPlane is a running control plane. Its methods are safe for concurrent use; those that start or end
// components wait for each other.
type ControlPlane struct {
	layout

	opts     Options
	printf   progress.Printf
	binaries Binaries
	prober   *http.Client
	lifeline *lifeline
	admin    *rest.Config
	died     chan error

	mu      sync.Mutex
	running map[Component]*process // nil once stopped
	// kubelets are those of StartKubelet by the names of their Nodes, also those that have ended.
	kubelets map[string]*Kubelet
	stopErr  error
}

// Start builds the programs if necessary (see Build), starts a control plane and returns when every component is ready
// and the default ServiceAccount exists, so that pods can be created in the namespace default. The caller must call
// Stop. ctx limits only the start: if it ends during the start, everything is stopped. An error names the component and
// has the end of its log; then nothing is left running.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	printf := progress.New(opts.Log, "controlplane")
	binaries, err := buildWith(ctx, printf)
	if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	begin := time.Now()
	cp, err := startOnce(ctx, opts, printf, binaries)
	for try := 1; errors.Is(err, errPortTaken) && try < startTries; try++ {
		printf("another process took a port, trying others")
		cp, err = startOnce(ctx, opts, printf, binaries)
	}
	if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	printf("ready after %s at %s", time.Since(begin).Round(10*time.Millisecond), cp.serverURL())
	return cp, nil
}

// startTries limits the attempts of Start to find ports that no other process takes between the choice of a port and
// its use; control planes that start at the same time choose from the same range.
const startTries = 3

func startOnce(ctx context.Context, opts Options, printf progress.Printf, binaries Binaries) (*ControlPlane, error) {
	cp, err := prepare(opts, printf, binaries)
	if err != nil {
		return nil, err
	}
	if err := cp.startAll(ctx); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

// prepare writes all files and creates the lifeline; only the sweeper runs yet.
func prepare(opts Options, printf progress.Printf, binaries Binaries) (*ControlPlane, error) {
	parent := opts.Dir
	if parent == "" {
		parent = os.TempDir()
	}
	files, err := newLayout(parent)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{
		layout: files, opts: opts, printf: printf, binaries: binaries,
		died:    make(chan error, 1),
		running: map[Component]*process{}, kubelets: map[string]*Kubelet{},
	}
	if cp.lifeline, err = newLifeline(cp.dir, binaries.ControlPlane, opts.KeepDir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(cp.dir))
	}
	if cp.prober, err = newProber(&cp.layout); err == nil {
		cp.admin, err = cp.config("admin", "system:masters")
	}
	if err == nil {
		err = cp.writeConfigs()
	}
	if err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

// startAll starts etcd, then the API server, which cannot wait for etcd, then all others at once.
func (cp *ControlPlane) startAll(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for _, wave := range [][]Component{{Etcd}, {APIServer}, {ControllerManager, Scheduler, Kwok}} {
		var started []*process
		for _, c := range wave {
			if !cp.has(c) {
				continue
			}
			p, err := cp.launch(c)
			if err != nil {
				return err
			}
			started = append(started, p)
		}
		for _, p := range started {
			begin := time.Now()
			if err := cp.waitReady(ctx, p, cp.probeURL(p.component)); err != nil {
				return err
			}
			cp.printf("%s is ready (%s)", p.component, time.Since(begin).Round(10*time.Millisecond))
		}
	}
	if p, ok := cp.running[ControllerManager]; ok {
		return cp.waitReady(ctx, p, cp.serverURL()+"/api/v1/namespaces/default/serviceaccounts/default")
	}
	return nil
}

// launch starts one component. The caller holds mu.
func (cp *ControlPlane) launch(c Component) (*process, error) {
	cmd := cp.command(c)
	cp.lifeline.tie(cmd)
	p, err := startProcess(c, cmd, cp.log(c), cp.reportDeath)
	if err != nil {
		return nil, err
	}
	cp.running[c] = p
	return p, nil
}

func (cp *ControlPlane) has(c Component) bool { return slices.Contains(cp.opts.components(), c) }

// reportDeath keeps only the first death, because it causes the others.
func (cp *ControlPlane) reportDeath(err error) {
	select {
	case cp.died <- err:
	default:
	}
}

// Died returns a channel with the error of the first component that ended although neither Kill nor Stop
// ended it. The error holds the end of its log. The channel is never closed.
func (cp *ControlPlane) Died() <-chan error { return cp.died }

// Stop kills all components and deletes everything that Start has created, except with Options.KeepDir. It returns when
// that is done. A second call does nothing and returns the same error.
func (cp *ControlPlane) Stop() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.running == nil {
		return cp.stopErr
	}
	// The components are killed, because the data is deleted anyway and the API server would wait a minute for its
	// watches. Clients are killed first, so that they log no errors about a missing server.
	for _, k := range cp.kubelets {
		k.Kill()
	}
	for _, c := range slices.Backward(Components()) {
		if p, ok := cp.running[c]; ok {
			p.kill()
		}
	}
	cp.running = nil
	if err := cp.lifeline.close(); err != nil {
		cp.stopErr = fmt.Errorf("stop the control plane: %w", err)
	}
	return cp.stopErr
}

// Kill ends one component with SIGKILL, as a crash would, and returns when it is gone. It does nothing for a component
// that is not running. Errors match ErrUnknownComponent and ErrStopped.
func (cp *ControlPlane) Kill(c Component) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.killLocked(c)
}

func (cp *ControlPlane) killLocked(c Component) error {
	if !cp.has(c) {
		return fmt.Errorf("kill %q: %w", c, ErrUnknownComponent)
	}
	if cp.running == nil {
		return fmt.Errorf("kill %s: %w", c, ErrStopped)
	}
	if p, ok := cp.running[c]; ok {
		p.kill()
		delete(cp.running, c)
	}
	return nil
}

// Restart kills a component if it is running, starts it with the same ports and data, and returns when it is
// ready. When ctx ends first, the component is left starting. Restarting kwok needs a running API server. Errors
// match ErrUnknownComponent and ErrStopped.
func (cp *ControlPlane) Restart(ctx context.Context, c Component) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if err := cp.killLocked(c); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if c == Kwok {
		if err := cp.releaseLeases(ctx); err != nil {
			return fmt.Errorf("restart %s: %w", c, err)
		}
	}
	p, err := cp.launch(c)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := cp.waitReady(ctx, p, cp.probeURL(c)); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

// Config returns a client configuration of a cluster administrator, without client-side limits (QPS -1). Every call
// returns a new copy. Set UserAgent to separate the requests of clients in the audit log.
func (cp *ControlPlane) Config() *rest.Config { return rest.CopyConfig(cp.admin) }

// ConfigFor returns a client configuration of another user, with only the rights that RBAC gives to that user and these
// groups.
func (cp *ControlPlane) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	return cp.config(user, groups...)
}

// Kubeconfig returns the path of an administrator's kubeconfig. It is deleted with the directory.
func (cp *ControlPlane) Kubeconfig() string { return cp.path(adminFile) }

// WriteKubeconfig writes the server and the client certificate of config into a file that only this user can read, for
// a program with --kubeconfig.
func WriteKubeconfig(path string, config *rest.Config) error { return writeKubeconfig(path, config) }

// Dir returns the directory of keys, data and logs.
func (cp *ControlPlane) Dir() string { return cp.dir }

// Logs returns the path of a component's log. A restarted component continues the same file.
func (cp *ControlPlane) Logs(c Component) string { return cp.log(c) }
