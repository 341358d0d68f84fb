package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// document is one that package userdata promises to render.
type document struct {
	// name has the system, version, family, architecture, and whether it has everything that a Config can have.
	name   string
	system userdata.System
	config userdata.Config
	single userdata.Document
	stages userdata.Stages
}

const token = "abcdef.0123456789abcdef"

// all renders every combination. Each needs a CA as large as that of a real cluster.
func all() ([]document, error) {
	ca, err := newCA()
	if err != nil {
		return nil, err
	}
	var documents []document
	for _, name := range userdata.Names() {
		system, err := userdata.Builtin(name)
		if err != nil {
			return nil, err
		}
		for _, minor := range system.Versions() {
			for _, families := range []userdata.Families{userdata.IPv4, userdata.IPv6, userdata.DualStack} {
				for _, architecture := range []userdata.Architecture{userdata.AMD64, userdata.ARM64} {
					base := userdata.Config{Version: minor + ".3", Architecture: architecture, Families: families,
						Cluster: userdata.Cluster{Server: "https://192.0.2.1:6443", CA: ca, Token: userdata.NewSecret(token)}}
					prefix := fmt.Sprintf("%s_%s_%s_%s", name, minor, families, architecture)
					documents = append(documents, document{name: prefix + "_minimal", system: system, config: base},
						document{name: prefix + "_everything", system: system, config: everything(base)})
				}
			}
		}
	}
	for i := range documents {
		if err := documents[i].render(); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

func (d *document) render() (err error) {
	if d.single, err = userdata.Render(d.system, d.config); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	d.stages, err = userdata.RenderStages(d.system, d.config, types.NamespacedName{Namespace: "first-boot", Name: "worker-7"})
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// everything adds all that a Config can have. The password of the proxy has characters that mean something to shells and to systemd.
func everything(c userdata.Config) userdata.Config {
	var addresses, gateways, servers, services []netip.Addr
	if c.Families != userdata.IPv6 {
		addresses, gateways = append(addresses, netip.MustParseAddr("192.0.2.7")), append(gateways, netip.MustParseAddr("192.0.2.254"))
		servers, services = append(servers, netip.MustParseAddr("192.0.2.53")), append(services, netip.MustParseAddr("10.96.0.10"))
	}
	if c.Families != userdata.IPv4 {
		addresses, gateways = append(addresses, netip.MustParseAddr("2001:db8::7")), append(gateways, netip.MustParseAddr("2001:db8::fe"))
		servers, services = append(servers, netip.MustParseAddr("2001:db8::53")), append(services, netip.MustParseAddr("fd00:96::a"))
	}
	c.Cluster.DNS, c.Cluster.ExternalCloudProvider = services, true
	c.Node = userdata.Node{Name: "worker-7.example.com", ProviderID: "example://zone-1/i-0123", Addresses: addresses,
		Labels: map[string]string{"example.com/pool": "green", corev1.LabelTopologyZone: "zone-1"},
		Taints: []corev1.Taint{{Key: "example.com/gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}}
	c.Kubelet = json.RawMessage(`{"maxPods": 60, "serverTLSBootstrap": true}`)
	c.Network = &userdata.Network{Interface: "eth0", Gateways: gateways, DNS: servers, MTU: 1450}
	for _, a := range addresses {
		c.Network.Addresses = append(c.Network.Addresses, netip.PrefixFrom(a, a.BitLen()-8))
	}
	c.Proxy = userdata.Proxy{HTTP: userdata.NewSecret(proxy), HTTPS: userdata.NewSecret(proxy), No: []string{"127.0.0.1", ".example.com"}}
	c.Upgrade = true
	c.SSHKeys = []string{sshKey}
	c.HostCAs, c.SandboxImage = c.Cluster.CA+c.Cluster.CA, "registry.example.com/pause:3.10.1"
	c.Files = []userdata.File{{Path: "/etc/motd", Mode: 0o644, Content: userdata.NewSecret("Grüße\n")}}
	return c
}

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPmHdA6HxU1pT4WmNnZ8GT2jYNQ4d5oV8Zb4q0m1kTzd operator@example.com"

const proxy = "http://user:p%40$HOME$(reboot);!&@proxy.example.com:3128"

func newCA() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now(), NotAfter: time.Now().AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), err
}

// extension of the file of a document.
func extension(format userdata.Format) string {
	return map[userdata.Format]string{userdata.CloudConfig: ".yaml", userdata.Ignition: ".ign"}[format]
}

// writeAll writes all documents to a folder: NAME and NAME_first, .yaml for cloud-init and .ign for Ignition, and NAME_second.sh.
func writeAll(folder string, out io.Writer) error {
	documents, err := all()
	if err != nil {
		return err
	}
	some, err := partly()
	if err != nil {
		return err
	}
	for _, name := range userdata.Names() {
		documents = append(documents, some[name]...)
	}
	largest := 0
	for _, d := range documents {
		for file, content := range map[string][]byte{
			d.name + extension(d.single.Format()):                  d.single.Bytes(),
			d.name + "_first" + extension(d.stages.First.Format()): d.stages.First.Bytes(),
			d.name + "_second.sh":                                  d.stages.Secret.Data["value"],
		} {
			if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
				return err
			}
		}
		largest = max(largest, d.single.Size())
	}
	fmt.Fprintf(out, "%d documents in %s, the largest of %d bytes\n", len(documents), folder, largest)
	return nil
}
