package published

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// ClusterAPIVersion is the release of Cluster API whose CRDs ClusterAPICRDs returns. It is not required in go.mod,
// because it pins other versions of Kubernetes' modules.
const ClusterAPIVersion = "v1.13.6"

// ErrNoCRD is matched when Cluster API has no CRD of a kind that was requested, or not in that version.
var ErrNoCRD = errors.New("no such CRD in Cluster API " + ClusterAPIVersion)

// ClusterAPICRDs returns Cluster API's own CRDs of these kinds, such as "Cluster" and "Machine", in this order, all
// of its core kinds when none are named. The go command downloads them as a module, into its cache. Each keeps only
// one API version, such as "v1beta2", which becomes the stored one, and no conversion webhook, since nothing here
// would answer it. Everything else is as Cluster API ships it.
func ClusterAPICRDs(ctx context.Context, version string, kinds ...string) ([]*unstructured.Unstructured, error) {
	all, err := CRDs(ctx, "sigs.k8s.io/cluster-api@"+ClusterAPIVersion, "config/crd/bases/*.yaml")
	if err != nil {
		return nil, err
	}
	if len(kinds) == 0 {
		kinds = slices.Sorted(maps.Keys(all))
	}
	crds := make([]*unstructured.Unstructured, 0, len(kinds))
	for _, kind := range kinds {
		crd, ok := all[kind]
		if !ok {
			return nil, fmt.Errorf("kind %q: %w; it has %s", kind, ErrNoCRD, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		if err := keepVersion(crd, version); err != nil {
			return nil, fmt.Errorf("kind %q: %w", kind, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// CRDs returns the CRDs in files of a Go module, such as "config/crd/*.yaml" of "example.com/module@v1.2.3", by kind and as they are.
func CRDs(ctx context.Context, module, pattern string) (map[string]*unstructured.Unstructured, error) {
	dir, err := download(ctx, module)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil {
		return nil, fmt.Errorf("CRDs of %s: %w", module, err)
	}
	crds := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		for document := range strings.SplitSeq("\n"+string(content), "\n---") {
			err = errors.Join(err, addCRD(crds, document))
		}
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", filepath.Base(file), module, err)
		}
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("%s of %s holds no CRD", pattern, module)
	}
	return crds, nil
}

// download lets the go command put a module, such as "example.com/module@v1.2.3", into its cache, and returns its folder there. It runs
// outside of any module, so that no go.mod changes, and without a workspace.
func download(ctx context.Context, module string) (string, error) {
	outside, err := os.MkdirTemp("", "machinist-module-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(outside) }()
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Env = outside, append(os.Environ(), "GO111MODULE=on", "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	var downloaded struct{ Dir, Error string }
	if err := errors.Join(err, json.Unmarshal(out, &downloaded)); err != nil {
		return "", fmt.Errorf("download %s: %w %s", module, err, downloaded.Error)
	}
	return downloaded.Dir, nil
}

// addCRD adds the CRD that a document holds; another object is none.
func addCRD(crds map[string]*unstructured.Unstructured, document string) error {
	// Not into map[string]any directly: the dynamic client wants int64, which this decoder makes.
	data, err := yaml.YAMLToJSON([]byte(document))
	if err != nil || string(data) == "null" {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := crd.UnmarshalJSON(data); err != nil {
		return err
	}
	if crd.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	crds[kind] = crd
	return err
}

// keepVersion leaves one version of a CRD, served and stored.
func keepVersion(crd *unstructured.Unstructured, name string) error {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if version["name"] != name {
			continue
		}
		version["served"], version["storage"] = true, true
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		unstructured.RemoveNestedField(crd.Object, "status")
		return unstructured.SetNestedSlice(crd.Object, []any{version}, "spec", "versions")
	}
	return fmt.Errorf("version %q: %w", name, ErrNoCRD)
}
