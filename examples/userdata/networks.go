package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// A judge has the real tool of a system read the file of a network in a folder of its own, and returns the configuration that the tool has
// made of it; empty where the tool shows none.
type judge struct {
	tool string
	read func(ctx context.Context, folder, file string) (string, error)
	// wrong is a file that the tool has to refuse.
	wrong string
}

// judges are by the folder of the file on the machine.
func judges() map[string]judge {
	return map[string]judge{
		"/etc/netplan/": {"netplan", netplan, `{"network": {"version": 2, "ethernets": {"eth0": {"nameservers": {"addresses": null}}}}}`},
		"/etc/NetworkManager/system-connections/": {"NetworkManager", nmcli, "[connection]\nid=a\ntype=ethernet\n[ipv4]\nmethod=none\n"},
		"/etc/systemd/network/":                   {"systemd-networkd", networkd, "[Match]\nName=eth0\n[Network]\nGatway=192.0.2.1\n"},
	}
}

// netplan has netplan write files for systemd-networkd.
func netplan(ctx context.Context, folder, file string) (string, error) {
	place := filepath.Join(folder, "etc/netplan")
	if err := os.MkdirAll(place, 0o700); err != nil {
		return "", err
	}
	if err := os.Rename(file, filepath.Join(place, filepath.Base(file)+".yaml")); err != nil {
		return "", err
	}
	if err := tool(ctx, "netplan", "generate", "--root-dir", folder); err != nil {
		return "", err
	}
	var made strings.Builder
	written, err := filepath.Glob(filepath.Join(folder, "run/systemd/network/*"))
	for _, name := range written {
		content, err2 := os.ReadFile(name)
		_, _ = made.Write(content)
		err = errors.Join(err, err2)
	}
	return made.String(), err
}

// nmcli has NetworkManager's client read a keyfile, and write it as NetworkManager would.
func nmcli(ctx context.Context, _, file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	command := exec.CommandContext(ctx, "nmcli", "--offline", "connection", "modify", "connection.zone", "")
	var refused strings.Builder
	command.Stdin, command.Stderr = in, &refused
	made, err := command.Output()
	if err != nil {
		err = fmt.Errorf("nmcli: %w\n%s", err, refused.String())
	}
	return string(made), err
}

// errUnasked matches an error of a tool that has read nothing.
var errUnasked = errors.New("it has read no file")

// networkdScript starts systemd-networkd without any interface, with the files of a folder alone.
const networkdScript = `mkdir -p /run/systemd/netif && mount -t tmpfs none /run/systemd/netif && mount --bind "$1" /etc/systemd/network &&
SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=info exec /lib/systemd/systemd-networkd 2>&1`

// networkd has systemd-networkd read a file, which it has done when it looks for interfaces, and ends it. It warns of what it does not
// understand, and goes on.
func networkd(ctx context.Context, folder, file string) (string, error) {
	name := filepath.Join(folder, "10-machinist.network")
	err := errors.Join(os.Rename(file, name), os.Chmod(folder, 0o755), os.Chmod(name, 0o644)) //nolint:gosec // systemd-network reads them
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "unshare", "--net", "--mount", "sh", "-c", networkdScript, "sh", folder)
	var printed strings.Builder
	command.Stderr = &printed
	lines, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return "", fmt.Errorf("systemd-networkd: %w", err)
	}
	done := false
	for scanner := bufio.NewScanner(lines); !done && scanner.Scan(); done = scanner.Text() == "Enumeration completed" {
		if _, _ = fmt.Fprintln(&printed, scanner.Text()); strings.Contains(scanner.Text(), filepath.Base(name)) {
			err = errors.Join(err, errors.New("systemd-networkd: "+scanner.Text()))
		}
	}
	cancel()
	_ = command.Wait() // it was killed
	if !done {
		return "", fmt.Errorf("systemd-networkd: %w: %s", errUnasked, printed.String())
	}
	return "", err
}

// ofNetwork returns the content of the file that configures the network, and the folder of the file; empty without.
func (d *document) ofNetwork() (folder, content string, err error) {
	files, err := userdata.Files(d.single.Bytes())
	for _, f := range files {
		for place := range judges() {
			if strings.HasPrefix(f.Path, place) {
				return place, f.Content.Reveal(), err
			}
		}
	}
	return "", "", err
}

// checkPartly has the tools of each system read configurations that are partly filled: their networks, and the documents themselves. It
// prints how many.
func checkPartly(ctx context.Context, folder string, out io.Writer) error {
	all, err := partly()
	if err != nil {
		return err
	}
	var documents []document
	for _, name := range userdata.Names() {
		if err := checkNetworks(ctx, folder, name, all[name], out); err != nil {
			return err
		}
		documents = append(documents, all[name]...)
	}
	if err := checkScripts(ctx, folder, documents, out); err != nil {
		return err
	}
	return checkCloudConfigs(ctx, folder, documents, out)
}

// checkNetworks has the tool of a system read the networks of documents, and a wrong one.
func checkNetworks(ctx context.Context, folder, system string, documents []document, out io.Writer) error {
	distinct, place := map[string]document{}, ""
	for _, d := range documents {
		in, content, err := d.ofNetwork()
		if err != nil {
			return err
		}
		if content != "" {
			distinct[content], place = d, in
		}
	}
	j := judges()[place]
	if err := tool(ctx, "unshare", "--net", "--mount", "true"); err != nil && j.tool == "systemd-networkd" {
		fmt.Fprintf(out, "%s: systemd-networkd is not asked, because this machine allows no namespaces: %v\n", system, err)
		return nil
	}
	if _, err := j.judged(ctx, folder, "wrong", j.wrong); errors.Is(err, errUnasked) {
		return err
	} else if err == nil {
		return fmt.Errorf("%s accepts a file that is wrong: it checks nothing here", j.tool)
	}
	err := each(distinct, func(content string, d document) error {
		made, err := j.judged(ctx, folder, d.name, content)
		if err != nil {
			return err
		}
		return missing(d.config.Network, cmp.Or(made, content))
	})
	fmt.Fprintf(out, "%s: %d partly filled configurations; %s reads their %d distinct networks and refuses a wrong one\n",
		system, len(documents), j.tool, len(distinct))
	return err
}

// judged has the tool read content in a folder of its own.
func (j judge) judged(ctx context.Context, folder, name, content string) (string, error) {
	own, err := os.MkdirTemp(folder, name+"-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(own, "network")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return "", err
	}
	return j.read(ctx, own, file)
}

// missing reports what a configuration lacks of a network: a tool ignores what it does not understand.
func missing(n *userdata.Network, made string) error {
	var want []string
	for _, a := range n.Addresses {
		want = append(want, a.String())
	}
	for _, a := range slices.Concat(n.Gateways, n.DNS) {
		want = append(want, a.String())
	}
	if n.MTU > 0 {
		want = append(want, fmt.Sprint(n.MTU))
	}
	for _, gateway := range n.Gateways { // see members: those that are on no network of the machine
		if gateway == netip.MustParseAddr("198.51.100.1") {
			made = strings.ToLower(made)
			want = append(want, "onlink")
		}
	}
	for _, text := range want {
		if !strings.Contains(made, text) {
			return fmt.Errorf("%s is lost in:\n%s", text, made)
		}
	}
	return nil
}
