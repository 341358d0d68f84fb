//go:build e2evm

package vm_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/machine/userdata"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/vm"
)

// registry serves images that the test has built to the machines, on a loopback address of this computer.
type registry struct {
	// host is its name in images.
	host    string
	content map[string]part // by the path in its API
}

type part struct {
	mediaType string
	bytes     []byte
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{content: map[string]part{"/v2/": {"application/json", []byte("{}")}}}
	server := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	r.host = vm.Host + ":" + address.Port()
	return r
}

func (r *registry) serve(w http.ResponseWriter, request *http.Request) {
	found, is := r.content[request.URL.Path]
	if !is {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", found.mediaType)
	w.Header().Set("Docker-Content-Digest", digest(found.bytes))
	http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(found.bytes))
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// trust is the file by which containerd reads from it without TLS.
func (r *registry) trust() userdata.File {
	return userdata.File{Path: "/etc/containerd/certs.d/" + r.host + "/hosts.toml", Mode: 0o644,
		Content: userdata.NewSecret(fmt.Sprintf("server = \"http://%s\"\n", r.host))}
}

// push builds the program in testdata/app and adds an image that runs it with arguments. It returns the name of the image.
func (r *registry) push(t *testing.T, name string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "app")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./testdata/app")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	binary, err := os.ReadFile(program)
	require.NoError(t, err)
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	require.NoError(t, files.WriteHeader(&tar.Header{Name: "app", Mode: 0o755, Size: int64(len(binary))}))
	_, err = files.Write(binary)
	require.NoError(t, err)
	require.NoError(t, files.Close())

	const kind = "application/vnd.oci.image."
	blob := func(of string, content []byte) map[string]any {
		r.content["/v2/"+name+"/blobs/"+digest(content)] = part{"application/octet-stream", content}
		return map[string]any{"mediaType": kind + of, "digest": digest(content), "size": len(content)}
	}
	config, err := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux", "config": map[string]any{
		"Entrypoint": append([]string{"/app"}, args...),
	}, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer.Bytes())}}})
	require.NoError(t, err)
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
		"config": blob("config.v1+json", config), "layers": []any{blob("layer.v1.tar", layer.Bytes())}})
	require.NoError(t, err)
	for _, reference := range []string{"1", digest(manifest)} {
		r.content["/v2/"+name+"/manifests/"+reference] = part{kind + "manifest.v1+json", manifest}
	}
	return r.host + "/" + name + ":1"
}
