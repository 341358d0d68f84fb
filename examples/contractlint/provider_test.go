package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// published is a provider as it was released, and everything that there is to find in it. Each finding was compared with the
// contract's page by hand.
type published struct {
	module, folder string
	checked        []string // the kinds that have a role
	skipped        int
	findings       []string
}

func providers() map[string]published {
	return map[string]published{
		// No API version of contract v1beta2 is claimed: v1beta2 of AWS fulfils contract v1beta1. The label still names API
		// version v1beta1, which is no longer served, or has never been in kinds that are younger. Cluster API reads v1beta2,
		// so that nothing waits, but the page says that each value of the label points to an available version. The templates of
		// both bootstrap providers have a spec and no metadata, so that labels for clones are dropped.
		"AWS": {
			module: "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0", folder: "config/crd", skipped: 15,
			checked: []string{"awsmachinepools", "awsmachines", "awsmachinetemplates", "awsmanagedmachinepools", "eksconfigs",
				"eksconfigtemplates", "nodeadmconfigs", "nodeadmconfigtemplates", "rosamachinepools"},
			findings: []string{
				"awsmachinepools SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which is not served",
				"awsmachines SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which is not served",
				"awsmachinetemplates SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which is not served",
				"awsmanagedmachinepools SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which is not served",
				"eksconfigs SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which is not served",
				"eksconfigtemplates SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which is not served",
				"eksconfigtemplates SHOULD spec.versions[v1beta2]: spec.template.metadata.labels: nothing",
				"nodeadmconfigs SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which spec.versions does not have",
				"nodeadmconfigtemplates SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which spec.versions does not have",
				"nodeadmconfigtemplates SHOULD spec.versions[v1beta2]: spec.template.metadata.labels: nothing",
				"rosamachinepools SHOULD metadata.labels[cluster.x-k8s.io/v1beta1]: v1beta1, which spec.versions does not have",
			},
		},
		// GCPMachine has no conditions at all, and two templates have a spec and no metadata.
		"GCP": {
			module: "sigs.k8s.io/cluster-api-provider-gcp@v1.13.1", folder: "config/crd", skipped: 6,
			checked: []string{"gcpmachinepools", "gcpmachines", "gcpmachinetemplates", "gcpmanagedmachinepools", "gcpmanagedmachinepooltemplates",
				"gkeconfigs", "gkeconfigtemplates"},
			findings: []string{
				"gcpmachines SHOULD spec.versions[v1beta1]: status.conditions: nothing",
				"gcpmanagedmachinepooltemplates SHOULD spec.versions[v1beta1]: spec.template.metadata.labels: nothing",
				"gkeconfigtemplates SHOULD spec.versions[v1beta1]: spec.template.metadata.labels: nothing",
			},
		},
		"kubeadm": {
			module: "sigs.k8s.io/cluster-api@v1.13.6", folder: "bootstrap/kubeadm/config/crd",
			checked: []string{"kubeadmconfigs", "kubeadmconfigtemplates"},
		},
	}
}

func TestRun_PublishedProvidersBreakNoMust(t *testing.T) {
	for name, p := range providers() {
		t.Run(name, func(t *testing.T) {
			dir := moduleDir(t, p.module)
			got := lintWith(built(t, filepath.Join(dir, p.folder)), "-o", "json", "-")
			require.Equal(t, exitOK, got.code, got.errors)
			r := decoded(t, got.out)
			require.Empty(t, r.Warnings)
			require.Len(t, r.Skipped, p.skipped)
			require.Equal(t, p.checked, r.names())
			if diff := cmp.Diff(p.findings, r.findings()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			require.NotEqual(t, exitUsage, lintWith("", dir).code, "everything that the module holds, samples and templates too")
		})
	}
}

// A provider that only adds the newer label hangs: this is how its author learns it.
func TestRun_APublishedProviderWithANewerLabelIsBroken(t *testing.T) {
	bases := filepath.Join(moduleDir(t, "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0"), "config/crd/bases")
	raw, err := os.ReadFile(filepath.Join(bases, "infrastructure.cluster.x-k8s.io_awsmachines.yaml"))
	require.NoError(t, err)
	both := map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2", "cluster.x-k8s.io/v1beta1": "v1beta2"}
	got := lintWith(withLabels(t, raw, both), "-o", "json", "-")
	require.Equal(t, exitBroken, got.code)
	require.Equal(t, []string{"awsmachines MUST spec.versions[v1beta2]: status.initialization.provisioned: nothing"},
		decoded(t, got.out).findings())
}

// built returns what kustomize prints of a folder, as far as the linter looks: the CRDs with the labels of the kustomization.
func built(t *testing.T, dir string) string {
	t.Helper()
	var k struct {
		Resources    []string          `json:"resources"`
		CommonLabels map[string]string `json:"commonLabels"`
		Labels       []struct {
			Pairs map[string]string `json:"pairs"`
		} `json:"labels"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &k))
	labels := map[string]string{}
	maps.Copy(labels, k.CommonLabels)
	for _, more := range k.Labels {
		maps.Copy(labels, more.Pairs)
	}
	var out strings.Builder
	for _, resource := range k.Resources {
		raw, err := os.ReadFile(filepath.Join(dir, resource))
		require.NoError(t, err)
		out.WriteString(withLabels(t, raw, labels) + "\n---\n")
	}
	return out.String()
}

// withLabels returns the only object of a text with more labels.
func withLabels(t *testing.T, text []byte, labels map[string]string) string {
	t.Helper()
	documents, err := decode(text, "")
	require.NoError(t, err)
	require.Len(t, documents, 1)
	all := documents[0].GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	documents[0].SetLabels(all)
	raw, err := documents[0].MarshalJSON()
	require.NoError(t, err)
	return string(raw)
}

func decoded(t *testing.T, text string) result {
	t.Helper()
	var r result
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	return r
}

func (r result) names() []string {
	var names []string
	for _, c := range r.Checked {
		name, _, _ := strings.Cut(c.Name, ".")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r result) findings() []string {
	var lines []string
	for _, c := range r.Checked {
		name, _, _ := strings.Cut(c.Name, ".")
		for _, f := range c.Findings {
			lines = append(lines, name+" "+string(f.Level)+" "+f.Path+": "+f.Found)
		}
	}
	slices.Sort(lines)
	return lines
}

// moduleDir returns where the go command keeps a module. It is not required by go.mod, because it pins other versions of
// Kubernetes.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "download %s: %s%s", module, out, stderr.String())
	var info struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &info))
	return info.Dir
}
