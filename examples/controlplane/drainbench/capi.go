package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
)

// capi is Cluster API's manager, whose drain cannot be called: a Machine is deleted instead, and the manager drains its Node first.
type capi struct {
	*capiObjects

	dir    string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the manager has ended
	err    error         // how; to be read after exited is closed
}

const (
	// quiet is how long the manager is left alone when the Machine has its Node: it labels the Node, and looks at an object at most
	// once a second.
	quiet       = 3 * time.Second
	capiEndTime = 10 * time.Second
)

// startCAPI runs the manager and gives each Node a Machine.
func startCAPI(ctx context.Context, plane *cluster.ControlPlane, live client.Client, nodes []string, say say) (drainer, error) {
	program, err := buildClusterAPI(ctx, say)
	if err != nil {
		return nil, err
	}
	objects := &capiObjects{client: live, plane: plane}
	if err := objects.install(ctx); err != nil {
		return nil, fmt.Errorf("start Cluster API: %w", err)
	}
	c := &capi{capiObjects: objects, exited: make(chan struct{})}
	// In the control plane's directory, which goes even when this process is killed.
	if c.dir, err = os.MkdirTemp(plane.Dir(), "cluster-api-"); err != nil {
		return nil, err
	}
	err = c.run(program, plane.Kubeconfig())
	if err == nil {
		err = c.whileRunning(ctx, func(ctx context.Context) error { return objects.createMachines(ctx, nodes) })
	}
	if err == nil {
		err = sleep(ctx, quiet)
	}
	if err != nil {
		err = fmt.Errorf("start Cluster API: %w", errors.Join(err, c.problem()))
		c.close()
		return nil, err
	}
	return c, nil
}

// run starts the manager without anything that it could not have here: nobody calls its webhooks, and no CRD has an old version.
func (c *capi) run(program, kubeconfig string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(c.dir, "tls.crt"), cert, 0o600),
		os.WriteFile(filepath.Join(c.dir, "tls.key"), key, 0o600),
	)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	c.cmd = exec.Command(program, //nolint:noctx // ended in close, and by this process's death
		"--webhook-cert-dir="+c.dir, fmt.Sprintf("--webhook-port=%d", port), "--health-addr=0",
		"--insecure-diagnostics", "--diagnostics-address=127.0.0.1:0",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
		"--kube-api-qps=-1", "--clustercache-client-qps=-1",
	)
	c.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig,
		"POD_NAMESPACE="+namespace, "POD_NAME="+capiProgram, "POD_UID="+capiProgram)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	tied(c.cmd)
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	return nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // is there at once, or fails at once
	if err != nil {
		return 0, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(errors.New("no TCP address"), listener.Close())
	}
	return address.Port, listener.Close()
}

func (c *capi) log() string { return filepath.Join(c.dir, "log") }

// whileRunning calls f, whose context ends with the manager too.
func (c *capi) whileRunning(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-c.exited:
			cancel(errors.Join(errors.New("the manager has ended although nobody has asked it to"), c.err))
		case <-ctx.Done():
		}
	}()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	cancel(nil)
	<-watched
	return err
}

func (c *capi) drain(ctx context.Context, nodes []string) error {
	err := c.whileRunning(ctx, func(ctx context.Context) error { return c.deleteMachines(ctx, nodes) })
	if err != nil {
		return errors.Join(err, c.problem())
	}
	return nil
}

// ended is when the manager asked for the deletion of the last Machine's infrastructure, which it does when the Node is drained.
func (c *capi) ended(own cluster.AuditEvents) time.Time {
	var last time.Time
	for _, e := range own {
		if e.Verb == "delete" && e.Group == infraGVK().Group && e.Received.After(last) {
			last = e.Received
		}
	}
	return last
}

// problem is the end of the manager's log.
func (c *capi) problem() error {
	content, err := os.ReadFile(c.log())
	if err != nil {
		return nil //nolint:nilerr // there is nothing to tell about
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return fmt.Errorf("the end of the manager's log:\n  %s", strings.Join(all[max(0, len(all)-keptLines):], "\n  "))
}

func (c *capi) close() {
	if c.cmd != nil && c.cmd.Process != nil {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(capiEndTime, func() { _ = c.cmd.Process.Kill() })
		<-c.exited
		timer.Stop()
	}
}
