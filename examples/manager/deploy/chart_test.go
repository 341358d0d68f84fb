//go:build e2e

package deploy_test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
)

// tool returns the program in an environment variable, which "make verify-manifests" sets.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	require.NotEmpty(t, path, "%s is not set: run make verify-manifests", variable)
	return path
}

// run runs a program, and returns its standard output and all that it wrote.
func run(t *testing.T, program string, args ...string) (stdout, all string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), out.String() + problems.String(), err
}

// succeeds is run for a program that must not fail. It returns the standard output.
func succeeds(t *testing.T, program string, args ...string) string {
	t.Helper()
	stdout, all, err := run(t, program, args...)
	require.NoError(t, err, "%s %s: %s", filepath.Base(program), strings.Join(args, " "), all)
	return stdout
}

// TestManifestsBuildAStaticProgram: the image has nothing but it, and certificates.
func TestManifestsBuildAStaticProgram(t *testing.T) {
	t.Parallel()
	program := managerBinary(t)
	file, err := elf.Open(program)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for _, part := range file.Progs {
		require.NotContains(t, []elf.ProgType{elf.PT_INTERP, elf.PT_DYNAMIC}, part.Type, "it needs shared libraries")
	}
	require.Contains(t, succeeds(t, program, "--help"), "-print-rbac")
}

// chart is the chart with values.
func chart(values string) []string {
	args := []string{"chart", "--namespace", "machinist-system"}
	if values != "" {
		args = append(args, "--set", values)
	}
	return args
}

// objectOf decodes the object of a kind in YAML documents. Unknown fields are errors.
func objectOf(t *testing.T, documents, kind string, into any) {
	t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		var meta struct{ Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(document), &meta))
		if meta.Kind == kind {
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), into))
			return
		}
	}
	t.Fatalf("there is no %s", kind)
}

func TestManifestsOfTheChartPassItsLinter(t *testing.T) {
	t.Parallel()
	succeeds(t, tool(t, "HELM"), append([]string{"lint", "--strict"}, chart("serviceMonitor.enabled=true,alerts.enabled=true")...)...)
}

func TestManifestsOfADeployment(t *testing.T) {
	t.Parallel()
	var deployment appsv1.Deployment
	var budget policyv1.PodDisruptionBudget
	rendered := succeeds(t, tool(t, "HELM"), append([]string{"template", "machinist-manager"}, chart("")...)...)
	objectOf(t, rendered, "Deployment", &deployment)
	objectOf(t, rendered, "PodDisruptionBudget", &budget)
	require.Equal(t, int32(2), *deployment.Spec.Replicas)
	require.Equal(t, deployment.Spec.Selector, budget.Spec.Selector)
	require.Equal(t, 1, budget.Spec.MaxUnavailable.IntValue())
	container := deployment.Spec.Template.Spec.Containers[0]
	require.Contains(t, container.Args, "--leader-elect")
	for _, list := range []corev1.ResourceList{container.Resources.Requests, container.Resources.Limits} {
		require.Len(t, list, 2, "CPU and memory")
	}
	require.Len(t, container.Env, 1)
	require.Equal(t, "GOMEMLIMIT", container.Env[0].Name)
	require.Equal(t, &corev1.ResourceFieldSelector{ContainerName: container.Name, Resource: "limits.memory"},
		container.Env[0].ValueFrom.ResourceFieldRef)
}

// TestManifestsGrantWhatTheManagerPrints compares the rights of the chart with what the manager prints for the flags of its Deployment.
func TestManifestsGrantWhatTheManagerPrints(t *testing.T) {
	t.Parallel()
	manager, helm := managerBinary(t), tool(t, "HELM")
	const foreign = ",driver=kwok,kinds.machinePools=false,kinds.machineHealthChecks=false"
	const lean = "kinds.machineSets=false,kinds.machineDeployments=false,kinds.machinePools=false,kinds.machineHealthChecks=false"
	for values, printed := range map[string][]string{
		"":                                  nil,
		"crds.install=false":                nil,
		"apiGroup=cluster.x-k8s.io":         nil,
		lean:                                nil,
		lean + ",freezeAll=true":            nil,
		"metrics.secure=false":              nil,
		"metrics.certSecret=certs":          nil,
		lean + ",driver=kwok":               nil,
		"kinds.machinePools=false":          nil,
		"workloadClusters=true":             nil,
		"rbac.ownerReferencesEnforced=true": {"--owner-references-enforced"},
		"apiGroup=cluster.x-k8s.io,rbac.ownerReferencesEnforced=true":              {"--owner-references-enforced"},
		"apiGroup=cluster.k8s.io" + foreign:                                        nil,
		"apiGroup=cluster.k8s.io,driver=kwok," + lean:                              nil,
		"apiGroup=machine.sapcloud.io" + foreign:                                   nil,
		"apiGroup=machine.sapcloud.io,clusters=never,freezeAll=true" + foreign:     nil,
		"apiGroup=machine.sapcloud.io,rbac.ownerReferencesEnforced=true" + foreign: {"--owner-references-enforced"},
		"apiGroup=cluster.x-k8s.io,driver=kwok":                                    nil,
		"apiGroup=cluster.x-k8s.io,driver=kwok," + lean:                            nil,
		"driver=kwok,kinds.machinePools=false":                                     nil,
		"driver=kwok,rbac.ownerReferencesEnforced=true":                            {"--owner-references-enforced"},
		"clusters=always":        nil,
		"driver=kwok,replicas=1": nil,
		"watchFilter=ours":       nil,
		"namespaces={a,b}":       nil,
		"namespaces={a},apiGroup=cluster.x-k8s.io,workloadClusters=true": nil,
		"namespaces={a},apiGroup=machine.sapcloud.io" + foreign:          nil,
		"extraArgs={--concurrency=50,--machine-safety-collect-orphans}":  nil,
		"apiGroup=cluster.x-k8s.io,kinds.machineHealthChecks=false":      nil,
		"apiGroup=cluster.x-k8s.io,clusters=never,workloadClusters=true": nil,
		"apiGroup=cluster.x-k8s.io,clusters=never," + lean:               nil,
		"rbac.providerResources=null,rbac.controlPlaneResources=null":    {"--provider-resources=", "--control-plane-resources="},
		"apiGroup=cluster.x-k8s.io,rbac.remediationResources={a.b.example.com,*.c.example.com}": {
			"--remediation-resources=a.b.example.com,*.c.example.com"},
		"apiGroup=cluster.x-k8s.io,rbac.providerResources={awsmachines.a.x-k8s.io},rbac.controlPlaneResources={k.example.com}": {
			"--provider-resources=awsmachines.a.x-k8s.io", "--control-plane-resources=k.example.com"},
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			rendered := succeeds(t, helm, append([]string{"template", "machinist-manager"}, chart(values)...)...)
			var deployment appsv1.Deployment
			objectOf(t, rendered, "Deployment", &deployment)
			want := succeeds(t, manager, append(append(deployment.Spec.Template.Spec.Containers[0].Args, "--print-rbac"), printed...)...)
			var wanted, granted rbacv1.ClusterRole
			objectOf(t, want, "ClusterRole", &wanted)
			objectOf(t, rendered, "ClusterRole", &granted)
			require.Empty(t, cmp.Diff(wanted.Rules, contract.MergePolicyRules(granted.Rules)))
			require.Empty(t, cmp.Diff(roles(t, want), roles(t, rendered)))
		})
	}
}

// roles are the rules of all Roles in YAML documents, by namespace; that of leader election has none where it is printed.
func roles(t *testing.T, documents string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := map[string][]rbacv1.PolicyRule{}
	for document := range strings.SplitSeq(documents, "\n---\n") {
		var role rbacv1.Role
		require.NoError(t, yaml.Unmarshal([]byte(document), &role))
		if role.Kind == "Role" {
			namespace := strings.TrimPrefix(role.Namespace, "machinist-system")
			require.NotContains(t, all, namespace)
			all[namespace] = contract.MergePolicyRules(role.Rules)
		}
	}
	return all
}

func TestManifestsNarrowTheManagerToNamespaces(t *testing.T) {
	t.Parallel()
	rendered := succeeds(t, tool(t, "HELM"), append([]string{"template", "machinist-manager"}, chart("namespaces={a,b}")...)...)
	var deployment appsv1.Deployment
	objectOf(t, rendered, "Deployment", &deployment)
	require.Contains(t, deployment.Spec.Template.Spec.Containers[0].Args, "--namespace=a,b")
	var binding rbacv1.RoleBinding
	objectOf(t, rendered, "RoleBinding", &binding)
	require.Equal(t, "a", binding.Namespace)
	require.Equal(t, "machinist-manager-machines", binding.RoleRef.Name)
	require.Equal(t, "machinist-system", binding.Subjects[0].Namespace)
}

func TestManifestsRefuseWrongValuesWithAMessage(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replica=3":                                 "additional properties 'replica' not allowed",
		"replicas=many":                             "at '/replicas': got string, want integer",
		"apiGroup=example.com":                      "at '/apiGroup': value must be one of 'machinist.dev', 'cluster.x-k8s.io'",
		"apiGroup=cluster.k8s.io":                   "at '/driver': value must be 'kwok'",
		"apiGroup=machine.sapcloud.io":              "at '/kinds/machinePools': value must be false",
		"kinds.machineSet=true":                     "additional properties 'machineSet' not allowed",
		"kinds.machineSets=false":                   "kinds.machineDeployments needs kinds.machineSets",
		"clusters=yes":                              "at '/clusters': value must be one of",
		"driver=aws":                                "at '/driver': value must be one of",
		"watchFilter=a b":                           "at '/watchFilter'",
		"namespaces={A}":                            "at '/namespaces/0'",
		"image.digest=sha256:1":                     "at '/image/digest'",
		"extraArgs={--machinesets}":                 "at '/extraArgs/0'",
		"rbac.providerResources={machines}":         "at '/rbac/providerResources/0'",
		"networkPolicy.apiServerPorts={0}":          "at '/networkPolicy/apiServerPorts/0'",
		"metrics.certSecret=C":                      "at '/metrics/certSecret'",
		"metrics.secure=false,metrics.certSecret=c": "at '/metrics/certSecret'",
		"pod.containers[0].name=x":                  "invalid propertyName 'containers'",
	} {
		_, all, err := run(t, tool(t, "HELM"), append([]string{"template", "machinist-manager"}, chart(values)...)...)
		require.Error(t, err, values)
		require.Contains(t, all, want, values)
	}
}

// TestManifestsServeTheMetrics: what the Deployment serves is what the ServiceMonitor reads.
func TestManifestsServeTheMetrics(t *testing.T) {
	t.Parallel()
	type endpoint struct {
		Port            string         `json:"port"`
		Interval        string         `json:"interval"`
		Scheme          string         `json:"scheme"`
		BearerTokenFile string         `json:"bearerTokenFile"`
		TLSConfig       map[string]any `json:"tlsConfig"`
	}
	type monitor struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []endpoint           `json:"endpoints"`
		} `json:"spec"`
	}
	const token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	for values, c := range map[string]struct {
		flag string
		want endpoint
	}{
		"metrics.secure=true": {"", endpoint{"metrics", "30s", "https", token, map[string]any{"insecureSkipVerify": true}}},
		"metrics.certSecret=certs,pod.volumes[0].name=more": {"--metrics-cert-path=/etc/metrics-certs", endpoint{"metrics", "30s", "https", token,
			map[string]any{
				"ca":         map[string]any{"secret": map[string]any{"name": "certs", "key": "ca.crt"}},
				"serverName": "machinist-manager.machinist-system.svc",
			}}},
		"metrics.secure=false": {"--metrics-secure=false", endpoint{Port: "metrics", Interval: "30s"}},
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			rendered := succeeds(t, tool(t, "HELM"),
				append([]string{"template", "machinist-manager"}, chart("serviceMonitor.enabled=true,"+values)...)...)
			var reads monitor
			objectOf(t, rendered, "ServiceMonitor", &reads)
			require.Equal(t, []endpoint{c.want}, reads.Spec.Endpoints)
			var deployment appsv1.Deployment
			objectOf(t, rendered, "Deployment", &deployment)
			pod := deployment.Spec.Template.Spec
			given := slices.DeleteFunc(pod.Containers[0].Args, func(arg string) bool {
				return !strings.HasPrefix(arg, "--metrics-") || arg == "--metrics-bind-address=:8085"
			})
			require.Equal(t, c.flag, strings.Join(given, " "))
			if !strings.HasPrefix(c.flag, "--metrics-cert-path") {
				require.Empty(t, pod.Volumes)
				return
			}
			require.Equal(t, []corev1.VolumeMount{{Name: "metrics-certs", MountPath: "/etc/metrics-certs", ReadOnly: true}},
				pod.Containers[0].VolumeMounts)
			require.Len(t, pod.Volumes, 2, "beside those of the values")
			require.Equal(t, "certs", pod.Volumes[1].Secret.SecretName)
		})
	}
}

// TestManifestsOfAReleaseHaveItsName: several releases can be in one cluster. Alerts are about one, and the dashboard finds each by the
// end of its name.
func TestManifestsOfAReleaseHaveItsName(t *testing.T) {
	t.Parallel()
	for release, name := range map[string]string{
		"machinist-manager": "machinist-manager", "east-machinist-manager": "east-machinist-manager", "east": "east-machinist-manager",
		strings.Repeat("x", 53): strings.Repeat("x", 40) + "-machinist-manager", "machinist-manager-2": "machinist-manager-2-machinist-manager",
	} {
		args := append([]string{"template", release, "--set", "alerts.enabled=true,dashboard.enabled=false",
			"--set", "apiGroup=cluster.x-k8s.io"}, chart("")...)
		rendered := succeeds(t, tool(t, "HELM"), args...)
		require.Contains(t, rendered, `absent(leader_election_master_status{name="`+name+`"})`)
		require.NotContains(t, rendered, ".*machinist-manager")
		require.Contains(t, rendered, "--api-group=cluster.x-k8s.io")
		require.NotContains(t, rendered, "--api-group=machinist.dev")
		var deployment appsv1.Deployment
		objectOf(t, rendered, "Deployment", &deployment)
		require.Equal(t, name, deployment.Name)
		require.Contains(t, deployment.Spec.Template.Spec.Containers[0].Args, "--leader-election-id="+name)
		var binding rbacv1.ClusterRoleBinding
		objectOf(t, rendered, "ClusterRoleBinding", &binding)
		require.Equal(t, name, binding.Subjects[0].Name)
	}
}
