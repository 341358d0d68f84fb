package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Joined is the content of a document about the Node that its machine becomes. It is enough for a driver whose machines are processes.
type Joined struct {
	// NodeName, ProviderID and Labels are empty if not set.
	NodeName, ProviderID string
	Labels               map[string]string
	// Taints are all taints that the Node is registered with.
	Taints []corev1.Taint
	// Kubeconfig is the kubeconfig for joining: server, pinned CA and token.
	Kubeconfig Secret
	// KubeletConfiguration is the complete configuration, as JSON.
	KubeletConfiguration json.RawMessage
	// KubeletArgs are the additional arguments.
	KubeletArgs []string
}

// Paths of the files that Parse reads.
const (
	kubeconfigFile    = "/etc/kubernetes/bootstrap-kubelet.conf"
	kubeletFile       = "/etc/kubernetes/kubelet.json"
	kubeletEnvFile    = "/etc/kubernetes/kubelet.env"
	maxUncompressed   = 16 << 20
	kubeletArgsPrefix = `KUBELET_ARGS="`
)

// Parse reads a document of Render, also after Fit, for drivers that start a kubelet themselves and for tests. It does not read documents
// of others, the first of two stages, or documents of systems whose templates have other paths. Errors contain nothing of the document.
func Parse(document []byte) (Joined, error) {
	files, err := Files(document)
	if err != nil {
		return Joined{}, err
	}
	content := map[string]string{}
	for _, f := range files {
		content[f.Path] = f.Content.Reveal()
	}
	for _, needed := range []string{kubeconfigFile, kubeletFile, kubeletEnvFile} {
		if _, is := content[needed]; !is {
			return Joined{}, fmt.Errorf("the document does not join a cluster: it has no file %s", needed)
		}
	}
	var kubelet struct {
		ProviderID         string         `json:"providerID"`
		RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
	}
	if json.Unmarshal([]byte(content[kubeletFile]), &kubelet) != nil {
		return Joined{}, fmt.Errorf("%s is not a KubeletConfiguration", kubeletFile)
	}
	joined := Joined{
		ProviderID: kubelet.ProviderID, Taints: kubelet.RegisterWithTaints, Kubeconfig: NewSecret(content[kubeconfigFile]),
		KubeletConfiguration: json.RawMessage(content[kubeletFile]),
	}
	joined.arguments(content[kubeletEnvFile])
	return joined, nil
}

// arguments parses the result of KubeletArgs, which has no characters that need quotes.
func (j *Joined) arguments(env string) {
	args, _, _ := strings.Cut(strings.TrimPrefix(env, kubeletArgsPrefix), `"`)
	j.KubeletArgs = strings.Fields(args)
	for _, arg := range j.KubeletArgs {
		flag, value, _ := strings.Cut(arg, "=")
		switch flag {
		case "--hostname-override":
			j.NodeName = value
		case "--node-labels":
			j.Labels = map[string]string{}
			for label := range strings.SplitSeq(value, ",") {
				key, text, _ := strings.Cut(label, "=")
				j.Labels[key] = text
			}
		}
	}
}

var errNotOurs = errors.New("the document is none that Render made")

// Files returns the files that a document of Render, or the first of two stages, writes, in order, including those of units.
func Files(document []byte) ([]File, error) {
	if plain, err := uncompressed(document); err == nil {
		document = plain
	}
	if rest, is := bytes.CutPrefix(document, []byte(cloudConfigHeader)); is {
		return cloudConfigFiles(rest)
	}
	return ignitionFiles(document)
}

func uncompressed(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(reader, maxUncompressed))
}

func cloudConfigFiles(document []byte) ([]File, error) {
	var doc cloudConfig
	if json.Unmarshal(document, &doc) != nil {
		return nil, errNotOurs
	}
	files := make([]File, 0, len(doc.Files))
	for _, f := range doc.Files {
		mode, err := strconv.ParseUint(f.Permissions, 8, 9)
		content := []byte(f.Content)
		if err == nil && f.Encoding != "" {
			content, err = base64.StdEncoding.DecodeString(f.Content)
		}
		if err != nil {
			return nil, errNotOurs
		}
		files = append(files, File{Path: f.Path, Mode: fs.FileMode(mode), Content: NewSecret(string(content))})
	}
	return files, nil
}

func ignitionFiles(document []byte) ([]File, error) {
	var doc ignitionConfig
	if json.Unmarshal(document, &doc) != nil || doc.Ignition.Version != ignitionVersion {
		return nil, errNotOurs
	}
	files := make([]File, 0, len(doc.Storage.Files)+len(doc.Systemd.Units))
	for _, f := range doc.Storage.Files {
		content, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(f.Contents.Source, dataURL))
		if err == nil && f.Contents.Compression != "" {
			content, err = uncompressed(content)
		}
		if err != nil {
			return nil, errNotOurs
		}
		files = append(files, File{Path: f.Path, Mode: fs.FileMode(f.Mode), Content: NewSecret(string(content))})
	}
	for _, u := range doc.Systemd.Units {
		if u.Contents != "" {
			files = append(files, File{Path: unitFolder + u.Name, Mode: 0o644, Content: NewSecret(u.Contents)})
		}
	}
	return files, nil
}
