package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/machinist-dev/machinist/machine/provider"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Host is the address by which a machine reaches the loopback addresses of this computer. The API servers of package cluster have it in
// their certificates.
const Host = "10.0.2.2"

// ownAddress is the address of each machine, in a network of its own.
const ownAddress = "10.0.2.15"

// scheme begins provider IDs.
const scheme = "qemu://"

// ProviderID returns the provider ID of the instance with a token, which is known before the instance exists.
func ProviderID(token string) string { return scheme + token }

// Driver makes virtual machines. An instance is a process and a folder with its disks; both are gone after Delete. Safe for concurrent use.
type Driver struct {
	image  Image
	folder string

	mu       sync.Mutex
	machines map[string]*machine // by Token
}

// machine is one instance.
type machine struct {
	name, cluster, folder string
	process               *os.Process
	ended                 chan struct{} // closed when the process is gone
}

// New returns a Driver whose machines start from an image, and have their files in a folder, which it makes and the caller deletes.
func New(image Image, folder string) *Driver {
	return &Driver{image: image, folder: folder, machines: map[string]*machine{}}
}

// Spec is the specification of an instance. Zero values are one processor and 2048 MiB.
type Spec struct {
	CPUs      int `json:"cpus,omitempty"`
	MemoryMiB int `json:"memoryMiB,omitempty"`
}

// readSpec returns the specification of a request with defaults.
func readSpec(r provider.Request) (Spec, error) {
	spec := Spec{CPUs: 1, MemoryMiB: 2048}
	if len(r.Spec) == 0 {
		return spec, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(r.Spec))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&spec); err != nil {
		return spec, provider.Errorf(provider.Invalid, "the specification has cpus and memoryMiB only, which are numbers")
	}
	if spec.CPUs < 1 || spec.MemoryMiB < 512 {
		return spec, provider.Errorf(provider.Invalid, "a machine needs a processor and 512 MiB")
	}
	return spec, nil
}

// Name implements provider.Driver.
func (d *Driver) Name() string { return "qemu" }

// Create implements provider.Driver.
func (d *Driver) Create(ctx context.Context, r provider.Request) (provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	spec, err := readSpec(r)
	if err != nil {
		return provider.Instance{}, err
	}
	if problems := validation.IsDNS1123Label(r.Token); len(problems) > 0 { // it is the name of a folder
		return provider.Instance{}, provider.Errorf(provider.Invalid, "token: %s", strings.Join(problems, "; "))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.machines[r.Token]; m != nil {
		return m.instance(r.Token), nil
	}
	m := &machine{name: r.Name, cluster: r.Cluster, folder: filepath.Join(d.folder, r.Token), ended: make(chan struct{})}
	if err := d.start(ctx, m, spec, r); err != nil {
		return provider.Instance{}, provider.Errorf(provider.Unavailable, "%w", errors.Join(err, os.RemoveAll(m.folder)))
	}
	d.machines[r.Token] = m
	return m.instance(r.Token), nil
}

// start makes the disks of a machine and starts its process.
func (d *Driver) start(ctx context.Context, m *machine, spec Spec, r provider.Request) error {
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return err
	}
	metadata, err := json.Marshal(map[string]string{"instance-id": r.Token, "local-hostname": r.Name}) // JSON is YAML
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(m.folder, "meta-data"), metadata, 0o600),
		os.WriteFile(filepath.Join(m.folder, "user-data"), r.UserData, 0o600),
	); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"genisoimage", "-quiet", "-volid", "cidata", "-joliet", "-rock", "-output", "seed", "user-data", "meta-data"},
		{"qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", d.image.Disk, "disk"},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = m.folder
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, output)
		}
	}
	return m.run(d.image.command(m.folder, spec))
}

// command is how QEMU is run. It boots the kernel itself, so the disk has no boot loader. All emulated processors share a thread: with one
// each, QEMU 7.2 may run code that the kernel is replacing, and the kernel panics.
func (i Image) command(folder string, spec Spec) *exec.Cmd {
	cmd := exec.Command("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-accel", "kvm", "-accel", "tcg,thread=single", "-cpu", "max",
		"-smp", fmt.Sprint(spec.CPUs), "-m", fmt.Sprint(spec.MemoryMiB),
		"-kernel", i.Kernel, "-initrd", i.Initrd, "-append", "root=/dev/vda rw mitigations=off panic=-1 "+
			"console=ttyS0 systemd.show_status=0 systemd.journald.forward_to_console=1",
		"-drive", "file=disk,if=virtio,format=qcow2,cache=unsafe", "-drive", "file=seed,if=virtio,format=raw,readonly=on",
		"-nic", "user,model=virtio-net-pci", "-device", "virtio-rng-pci", "-serial", "file:"+consoleFile)
	cmd.Dir = folder
	return cmd
}

// consoleFile is what a machine prints on its serial console: its kernel and its journal.
const consoleFile = "console.log"

// run starts the process of a machine, and returns while it runs. The kernel kills it when the thread that has started it ends, so that
// thread waits for it, and ends only with this process.
func (m *machine) run(cmd *exec.Cmd) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			_ = os.WriteFile(filepath.Join(m.folder, "qemu.log"), stderr.Bytes(), 0o600)
			close(m.ended)
		}
	}()
	err := <-started
	m.process = cmd.Process
	return err
}

// instance is what the Driver returns for a machine.
func (m *machine) instance(token string) provider.Instance {
	i := provider.Instance{ProviderID: ProviderID(token), Token: token, Name: m.name, State: provider.Running, Addresses: []provider.Address{
		{Type: string(corev1.NodeHostName), Address: m.name}, {Type: string(corev1.NodeInternalIP), Address: ownAddress},
	}}
	select {
	case <-m.ended:
		i.State, i.Message = provider.Stopped, "the process of the machine has ended"
	default:
	}
	return i
}

// Console returns what an instance has printed on its serial console: the output of its kernel and all its services.
func (d *Driver) Console(token string) string {
	console, _ := os.ReadFile(filepath.Join(d.folder, token, consoleFile))
	return string(console)
}

// tokenOf is the token that a request is about.
func tokenOf(r provider.Request) string {
	if r.ProviderID != "" {
		return strings.TrimPrefix(r.ProviderID, scheme)
	}
	return r.Token
}

// Get implements provider.Driver.
func (d *Driver) Get(ctx context.Context, r provider.Request) (provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	token := tokenOf(r)
	m := d.machines[token]
	if m == nil {
		return provider.Instance{}, provider.Errorf(provider.NotFound, "there is no instance %s", ProviderID(token))
	}
	return m.instance(token), nil
}

// Delete implements provider.Driver. The pods of a machine have been drained, so it needs no time to shut down.
func (d *Driver) Delete(ctx context.Context, r provider.Request) (gone bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	token := tokenOf(r)
	m := d.machines[token]
	if m == nil {
		return true, nil
	}
	_ = m.process.Kill()
	select {
	case <-m.ended:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if err := os.RemoveAll(m.folder); err != nil {
		return false, err
	}
	delete(d.machines, token)
	return true, nil
}

// List implements provider.Lister.
func (d *Driver) List(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []provider.Instance
	for _, token := range slices.Sorted(maps.Keys(d.machines)) {
		if m := d.machines[token]; m.cluster == r.Cluster {
			all = append(all, m.instance(token))
		}
	}
	return all, nil
}
