package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// checkBoots runs the scripts in scratch roots: each system in one stage, and in two with a server in the place of the API server.
func checkBoots(ctx context.Context, folder string, documents []document, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("the scripts run in a scratch root with chroot, which only root may do")
	}
	programs, err := newPrograms(ctx, filepath.Join(folder, "programs"))
	if err != nil {
		return err
	}
	once, twice := map[string]document{}, map[string]document{}
	for _, d := range documents {
		if strings.Contains(d.name, "_DualStack_amd64_minimal") || strings.Contains(d.name, "_DualStack_arm64_everything") {
			once[d.name] = d // the scripts see no other difference: they are the same for all families and versions
		}
		if strings.Contains(d.name, "_v1.36_DualStack_arm64_everything") {
			twice[d.name+"_stages"] = d
		}
	}
	boot := func(name string, d document) error {
		root, err := programs.root(filepath.Join(folder, name), "curl")
		if err != nil {
			return err
		}
		return root.bootOnce(ctx, d)
	}
	if err := each(once, boot); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d first boots in a scratch root end with the sentinel file\n", len(once))
	fetch := func(name string, d document) error {
		root, err := programs.root(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		return root.bootTwice(ctx, d)
	}
	if err := each(twice, fetch); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d boots in two stages fetch their data from a server with the pinned CA, and from no other\n", len(twice))
	return nil
}

// bootOnce runs boot.sh: first where the kubelet gets no certificate, then where it does, then as after a reboot.
func (s scratch) bootOnce(ctx context.Context, d document) error {
	if err := errors.Join(s.write(d.single), os.WriteFile(s.path("/never-joins"), nil, 0o600)); err != nil {
		return err
	}
	const boot = "/opt/machinist/boot.sh"
	switch output, err := s.run(ctx, boot); {
	case err == nil:
		return fmt.Errorf("a boot without a certificate succeeds\n%s", output)
	case !strings.Contains(output, "has no certificate yet"):
		return fmt.Errorf("a boot without a certificate does not report that: %w\n%s", err, output)
	}
	if err := s.has(userdata.SentinelFile, ""); err == nil {
		return errors.New("the sentinel file is there before the machine has joined")
	}
	const kubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
	if err := errors.Join(s.has(kubeconfig, token), os.Remove(s.path("/never-joins"))); err != nil {
		return err // the kubelet needs it until it has a certificate
	}
	if _, err := s.run(ctx, boot); err != nil {
		return err
	}
	if err := errors.Join(s.has(userdata.SentinelFile, ""), s.did(d)); err != nil {
		return err
	}
	if err := s.has(kubeconfig, token); err == nil {
		return errors.New("the bootstrap token is still on the machine after it has joined")
	}
	before, err := s.calls()
	if err != nil {
		return err
	}
	if err := os.Remove(s.path(userdata.SentinelFile)); err != nil {
		return err
	}
	if _, err := s.run(ctx, boot); err != nil {
		return err
	}
	after, err := s.calls()
	if len(after) != len(before) {
		err = fmt.Errorf("a later boot does more than to write the sentinel file: %q", after[len(before):])
	}
	return errors.Join(err, s.has(userdata.SentinelFile, ""))
}

// did checks what a boot has called and written.
func (s scratch) did(d document) error {
	calls, err := s.calls()
	if err != nil {
		return err
	}
	plain := strings.TrimPrefix(d.config.Version, "v")
	want := map[string][]string{
		userdata.Ubuntu2404: {"kubelet=" + plain + "-*", "apt-mark hold kubelet", "update-ca-certificates"},
		userdata.RHEL9:      {"dnf install --assumeyes kubelet-" + plain, "containerd.io-2.*", "update-ca-trust extract"},
		userdata.Rocky9:     {"dnf install --assumeyes kubelet-" + plain, "containerd.io-2.*", "update-ca-trust extract"},
		userdata.Flatcar:    {"https://dl.k8s.io/release/" + d.config.Version + "/bin/linux/" + string(d.config.Architecture) + "/kubelet"},
	}[d.system.Name()]
	want = append(want, "swapoff --all", "systemctl enable containerd.service kubelet.service")
	if !d.config.Proxy.HTTPS.IsZero() && d.system.Name() != userdata.RHEL9 && d.system.Name() != userdata.Rocky9 {
		want = append(want, "proxy "+proxy)
	}
	if d.config.Network != nil {
		want = append(want, map[string]string{userdata.Ubuntu2404: "netplan apply", userdata.Flatcar: "",
			userdata.RHEL9: "nmcli connection up machinist", userdata.Rocky9: "nmcli connection up machinist"}[d.system.Name()])
	}
	for _, call := range want {
		if !slices.ContainsFunc(calls, func(made string) bool { return strings.Contains(made, call) }) {
			return fmt.Errorf("nothing called %q:\n%s", call, strings.Join(calls, "\n"))
		}
	}
	if second := map[string]string{
		userdata.Ubuntu2404: "/usr/local/share/ca-certificates/machinist-2.crt", userdata.Flatcar: "/etc/ssl/certs/machinist-2.pem",
	}[d.system.Name()]; d.config.HostCAs != "" && second != "" {
		if err := s.has(second, "-----END CERTIFICATE-----"); err != nil {
			return err
		}
	}
	if d.config.Families == userdata.DualStack && len(d.config.Node.Addresses) == 0 {
		return s.has("/var/lib/machinist/node-ips.env", "NODE_IP_ARGS=--node-ip=10.0.0.7,2001:db8::7\n")
	}
	return nil
}

// secretServer answers like an API server that lets one token read one Secret.
type secretServer struct {
	*httptest.Server
	served, refused atomic.Int64
}

func newSecretServer(d *document) *secretServer {
	s := &secretServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path == "/api/v1/namespaces/first-boot/secrets/worker-7"
		if !path || r.Header.Get("Authorization") != "Bearer "+token || r.Method != http.MethodGet {
			s.refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.served.Add(1)
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ") // as the API server answers curl
		_ = encoder.Encode(d.stages.Secret)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about the client that does not trust it
	s.StartTLS()
	return s
}

// bootTwice fetches the second stage from a server, at first from one with a certificate of another CA.
func (s scratch) bootTwice(ctx context.Context, d document) error {
	api := newSecretServer(&d)
	defer api.Close()
	d.config.Cluster.Server = api.URL
	if err := d.fetch(ctx, s); err == nil || !strings.Contains(err.Error(), "certificate") {
		return fmt.Errorf("a fetch from a server that the CA did not sign ends with %v", err) //nolint:errorlint // it may be nil
	}
	if err := s.has("/var/lib/machinist/fetched", ""); err == nil || api.served.Load() != 0 {
		return errors.New("the data is fetched from a server that the CA did not sign")
	}
	d.config.Cluster.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))
	if err := d.fetch(ctx, s); err != nil {
		return err
	}
	if served, refused := api.served.Load(), api.refused.Load(); served != 1 || refused != 0 {
		return fmt.Errorf("the server answered %d times and refused %d times", served, refused)
	}
	return s.fetched(d)
}

// fetched checks what the second stage has written and started.
func (s scratch) fetched(d document) error {
	files, err := userdata.Files(d.single.Bytes())
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := s.same(f); err != nil {
			return err
		}
	}
	if _, err := os.Stat(s.path("/opt/machinist/fetch.header")); err == nil {
		return errors.New("the token of the first stage is still there")
	}
	calls, err := s.calls()
	if err == nil && !slices.Contains(calls, "systemctl enable --now --no-block machinist-boot.service") {
		err = fmt.Errorf("the unit of the second stage does not start: %q", calls)
	}
	return err
}

// fetch writes the first stage and runs it.
func (d *document) fetch(ctx context.Context, s scratch) error {
	if err := d.render(); err != nil {
		return err
	}
	if err := s.write(d.stages.First); err != nil {
		return err
	}
	_, err := s.run(ctx, "/opt/machinist/fetch.sh")
	return err
}

// same compares a file of the scratch root with what one stage would have written.
func (s scratch) same(f userdata.File) error {
	content, err := os.ReadFile(s.path(f.Path))
	if err != nil {
		return err
	}
	info, err := os.Stat(s.path(f.Path))
	switch {
	case err != nil:
		return err
	case string(content) != f.Content.Reveal():
		return fmt.Errorf("%s has another content than in one stage", f.Path)
	case info.Mode() != f.Mode:
		return fmt.Errorf("%s has the mode %v, not %v", f.Path, info.Mode(), f.Mode)
	}
	return nil
}
