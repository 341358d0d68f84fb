package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// HollowLabel is true on the Nodes of StartKubelet, and OtherNodes selects all others: as Options.ManagedNodes, it has kwok leave them
// alone.
const (
	HollowLabel = "machinist.dev/hollow"
	OtherNodes  = HollowLabel + "!=true"
)

// ErrManagedByKwok is matched by the error of StartKubelet when kwok would play the kubelet of the same Node.
var ErrManagedByKwok = errors.New("kwok manages all Nodes: start the control plane with Options.ManagedNodes " + OtherNodes)

// KubeletOptions are what a kubelet starts with: what package userdata calls Joined.
type KubeletOptions struct {
	// Name is that of the Node, and of the directory of the kubelet's files. A kubelet that is started again with a Name continues with its
	// certificate, as after a reboot.
	Name string
	// BootstrapKubeconfig has the server, its CA and a bootstrap token. AllowBootstrap gives tokens their rights.
	BootstrapKubeconfig []byte
	// Configuration is a KubeletConfiguration.
	Configuration []byte
	// Args are further flags of the kubelet, such as --node-labels.
	Args []string
}

// Kubelet is a kubelet in a process of its own. Its methods are safe for concurrent use.
type Kubelet struct {
	process *process
	dir     string
}

// StartKubelet starts a hollow kubelet, which is that of Kubernetes over a fake container runtime: it asks for a certificate with its
// bootstrap token, registers its Node with labels and taints, renews its Lease, and starts and ends pods. It does not wait for any of
// that. What needs a host is replaced, whatever the configuration is: cgroups, mounts, iptables, and the kubelet's own server. Stop
// ends it too. Errors match ErrStopped and ErrManagedByKwok.
func (cp *ControlPlane) StartKubelet(o KubeletOptions) (*Kubelet, error) {
	if problems := validation.IsDNS1123Subdomain(o.Name); len(problems) > 0 {
		return nil, fmt.Errorf("start the kubelet of %q: the name is that of a Node: %s", o.Name, strings.Join(problems, "; "))
	}
	if cp.playedByKwok() {
		return nil, fmt.Errorf("start the kubelet of %s: %w", o.Name, ErrManagedByKwok)
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.running == nil {
		return nil, fmt.Errorf("start the kubelet of %s: %w", o.Name, ErrStopped)
	}
	k := &Kubelet{dir: cp.path("kubelets", o.Name)}
	if old := cp.kubelets[o.Name]; old != nil {
		old.Kill()
	}
	if err := k.write(o); err != nil {
		return nil, fmt.Errorf("start the kubelet of %s: %w", o.Name, err)
	}
	cmd := cp.kubeletCommand(k.dir, o)
	cp.lifeline.tie(cmd)
	var err error
	if k.process, err = startProcess(Component("kubelet of "+o.Name), cmd, k.Log(), func(error) {}); err != nil {
		return nil, err
	}
	cp.kubelets[o.Name] = k
	return k, nil
}

// playedByKwok reports whether kwok would manage the Node of a kubelet.
func (cp *ControlPlane) playedByKwok() bool {
	if !cp.has(Kwok) {
		return false
	}
	selector, err := labels.Parse(cp.opts.ManagedNodes)
	return err != nil || selector.Matches(labels.Set{HollowLabel: "true"})
}

// The files of a kubelet, by their names in its directory, which is also its working directory.
const (
	bootstrapFile     = "bootstrap-kubelet.conf"
	kubeletConfigFile = "kubelet.json"
	kubeletFile       = "kubelet.conf"
)

func (k *Kubelet) write(o KubeletOptions) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(k.dir, bootstrapFile), o.BootstrapKubeconfig, 0o600),
		os.WriteFile(filepath.Join(k.dir, kubeletConfigFile), o.Configuration, 0o600),
		// A socket of an earlier run would be in the way.
		os.RemoveAll(filepath.Join(k.dir, "cri.sock")),
	)
}

func (cp *ControlPlane) kubeletCommand(dir string, o KubeletOptions) *exec.Cmd {
	args := append([]string{
		"kubelet", "--config=" + kubeletConfigFile, "--bootstrap-kubeconfig=" + bootstrapFile, "--kubeconfig=" + kubeletFile, "--cert-dir=pki",
	}, o.Args...)
	args = append(args, "--hostname-override="+o.Name, "--node-labels="+HollowLabel+"=true")
	cmd := exec.Command(cp.binaries.ControlPlane, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	return cmd
}

// Kill ends the kubelet with SIGKILL, as a crash of its machine would, and returns when it is gone. Its Node stays.
func (k *Kubelet) Kill() { k.process.kill() }

// Ended returns a channel that is closed when the process is gone.
func (k *Kubelet) Ended() <-chan struct{} { return k.process.ended }

// Err returns how the process ended, with the end of its log; nil while it runs and after Kill.
func (k *Kubelet) Err() error {
	select {
	case <-k.process.ended:
	default:
		return nil
	}
	if k.process.ending.Load() {
		return nil
	}
	return k.process.death()
}

// Log returns the path of its log.
func (k *Kubelet) Log() string { return filepath.Join(k.dir, "kubelet.log") }

// Remove kills the kubelet and deletes its files, with its certificate: a machine that is gone.
func (k *Kubelet) Remove() error {
	k.Kill()
	return os.RemoveAll(k.dir)
}
