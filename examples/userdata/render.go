package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// request has the flags of render.
type request struct {
	system, ca, token, keys string
	limit                   int
	binary                  bool
	labels, taints          string
	config                  userdata.Config
}

func (r *request) flags(errOut io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("render", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&r.system, "system", userdata.Ubuntu2404, "operating system: "+strings.Join(userdata.Names(), ", "))
	f.IntVar(&r.limit, "limit", 0, "fail if the document has more bytes than this, such as 32768 for Hetzner Cloud")
	f.BoolVar(&r.binary, "binary", false, "compress a document that is larger than --limit: the cloud accepts bytes, as AWS with 16384 does")
	f.StringVar(&r.config.Version, "version", "v1.36.3", "Kubernetes version")
	f.StringVar((*string)(&r.config.Architecture), "architecture", string(userdata.AMD64), "amd64 or arm64")
	f.StringVar((*string)(&r.config.Families), "families", string(userdata.IPv4), "IPv4, IPv6 or DualStack")
	f.StringVar(&r.config.Cluster.Server, "server", "", "URL of the API server")
	f.StringVar(&r.ca, "ca", "", "file with the CA of the API server")
	f.StringVar(&r.token, "token-file", "", "file with the bootstrap token; a flag would show it to everybody on this machine")
	f.StringVar(&r.config.Node.Name, "name", "", "name of the Node; without it the cloud decides")
	f.StringVar(&r.labels, "labels", "", "labels of the Node: key=value,...")
	f.StringVar(&r.taints, "taints", "", "taints of the Node: key=value:effect,...")
	f.StringVar(&r.keys, "ssh-keys", "", "file with public keys, one a line")
	return f
}

// render prints one document.
func render(args []string, out, errOut io.Writer) error {
	var r request
	f := r.flags(errOut)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("render takes flags only, not %q", f.Arg(0))
	}
	if err := r.read(); err != nil {
		return err
	}
	system, err := userdata.Builtin(r.system)
	if err != nil {
		return err
	}
	doc, err := userdata.Render(system, r.config)
	if err != nil {
		return err
	}
	if r.limit > 0 {
		if doc, err = doc.Fit(userdata.Budget{Bytes: r.limit, Binary: r.binary}); err != nil {
			return err
		}
	}
	_, err = out.Write(doc.Bytes())
	return err
}

// read reads files and lists into the Config.
func (r *request) read() error {
	ca, err := os.ReadFile(r.ca)
	if err != nil {
		return fmt.Errorf("-ca: %w", err)
	}
	token, err := os.ReadFile(r.token)
	if err != nil {
		return fmt.Errorf("-token-file: %w", err)
	}
	r.config.Cluster.CA, r.config.Cluster.Token = string(ca), userdata.NewSecret(strings.TrimSpace(string(token)))
	if r.keys != "" {
		keys, err := os.ReadFile(r.keys)
		if err != nil {
			return fmt.Errorf("-ssh-keys: %w", err)
		}
		r.config.SSHKeys = strings.FieldsFunc(string(keys), func(c rune) bool { return c == '\n' })
	}
	r.config.Node.Labels = map[string]string{}
	for _, label := range list(r.labels) {
		key, value, _ := strings.Cut(label, "=")
		r.config.Node.Labels[key] = value
	}
	for _, taint := range list(r.taints) {
		rest, effect, _ := strings.Cut(taint, ":")
		key, value, _ := strings.Cut(rest, "=")
		r.config.Node.Taints = append(r.config.Node.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return nil
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}
