//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// installOwnCRDs installs the CRDs of machinist.dev.
func (w *world) installOwnCRDs() {
	w.t.Helper()
	var crds []*unstructured.Unstructured
	for document := range strings.SplitSeq(strings.TrimPrefix(api.CRDs(), "---\n"), "\n---\n") {
		crd := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(document))
		require.NoError(w.t, err)
		require.NoError(w.t, crd.UnmarshalJSON(raw))
		crds = append(crds, crd)
	}
	require.NoError(w.t, cluster.InstallCRDs(w.t.Context(), w.plane.Config(), crds...))
}

// soundObjects are what the API server takes, by kind.
func soundObjects() map[string]string {
	const template = `"template":{"metadata":{"labels":{"pool":"a"}},"spec":{"clusterName":"c"}}`
	return map[string]string{
		"Machine":           `{"spec":{"clusterName":"c","version":"v1.36.3"}}`,
		"MachineSet":        `{"spec":{"clusterName":"c","selector":{"matchLabels":{"pool":"a"}},` + template + `}}`,
		"MachineDeployment": `{"spec":{"clusterName":"c","selector":{"matchLabels":{"pool":"a"}},` + template + `}}`,
		"MachinePool": `{"spec":{"clusterName":"c","template":{"spec":{"clusterName":"c",
			"infrastructureRef":{"apiGroup":"g.dev","kind":"Pool","name":"p"}}}}}`,
		"MachineHealthCheck": `{"spec":{"clusterName":"c","selector":{"matchLabels":{"pool":"a"}}}}`,
		"MachineClass":       `{"spec":{"providerSpec":{"cpu":"2"},"secretRef":{"name":"s"}}}`,
	}
}

// sound returns a new object of a kind.
func sound(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(soundObjects()[kind]), &obj.Object))
	obj.SetGroupVersionKind(api.Machinist.GroupVersion().WithKind(kind))
	obj.SetNamespace("default")
	obj.SetName("rules")
	return obj
}

// TestBadObjectsOfOurCRDsAreRefusedWithTheReason breaks each rule of the schemas once: a merge patch makes a sound object bad.
func TestBadObjectsOfOurCRDsAreRefusedWithTheReason(t *testing.T) {
	live, err := client.NewWithWatch(shared(t).Config(), client.Options{})
	require.NoError(t, err)
	w := &world{t: t, plane: shared(t), client: live}
	w.installOwnCRDs()
	ctx := t.Context()
	for kind := range soundObjects() {
		obj := sound(t, kind)
		require.NoError(t, w.client.Create(ctx, obj), kind)
		requireDefaults(t, obj)
		t.Cleanup(func() { require.NoError(t, w.client.Delete(context.WithoutCancel(ctx), obj)) })
	}
	for _, c := range refused() {
		for _, kind := range c.kinds {
			err := w.client.Patch(ctx, sound(t, kind), client.RawPatch(types.MergePatchType, []byte(c.patch)), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s with %s\nwant %q\ngot  %v", kind, c.patch, c.want, err)
			}
		}
	}
}

// requireDefaults compares what the API server has added with the defaults of Cluster API's webhooks.
func requireDefaults(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	template := map[string]any{"template.spec.deletion.nodeDeletionTimeoutSeconds": int64(10)}
	want := map[string]map[string]any{
		"Machine": {"deletion.nodeDeletionTimeoutSeconds": int64(10)}, "MachinePool": template, "MachineSet": template,
		"MachineDeployment": {
			"rollout.strategy.type": "RollingUpdate", "rollout.strategy.rollingUpdate.maxSurge": int64(1),
			"rollout.strategy.rollingUpdate.maxUnavailable": int64(0), "deletion.order": "Random",
		},
		"MachineHealthCheck": {"checks.nodeStartupTimeoutSeconds": int64(600)},
	}
	_, found, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "replicas")
	require.False(t, found, "%s names no replicas: an autoscaler has them", obj.GetKind())
	for path, value := range want[obj.GetKind()] {
		got, found, err := unstructured.NestedFieldNoCopy(obj.Object, append([]string{"spec"}, strings.Split(path, ".")...)...)
		require.NoError(t, err)
		require.True(t, found, "%s %s", obj.GetKind(), path)
		require.Equal(t, value, got, "%s %s", obj.GetKind(), path)
	}
}

// refusal is a merge patch that kinds refuse, and what the answer says.
type refusal struct {
	kinds       []string
	patch, want string
}

func refused() []refusal {
	machine, check := []string{"Machine"}, []string{"MachineHealthCheck"}
	deployment, pool, class := []string{"MachineDeployment"}, []string{"MachinePool"}, []string{"MachineClass"}
	sets := []string{"MachineSet", "MachineDeployment"}
	selecting := []string{"MachineSet", "MachineDeployment", "MachineHealthCheck"}
	templated := []string{"MachineSet", "MachineDeployment", "MachinePool"}
	const gate = `"type":"X","status":"True"`
	return []refusal{
		{machine, `{"spec":{"version":"1.36.3"}}`, "give a Kubernetes version with its leading v, such as v1.36.3"},
		{machine, `{"spec":{"version":"v1.36"}}`, "give a Kubernetes version with its leading v, such as v1.36.3"},
		{machine, `{"spec":{"bootstrap":{}}}`, "give configRef or dataSecretName, or leave bootstrap out"},
		{machine, `{"spec":{"clusterName":"d"}}`, "clusterName must not change: a Machine stays in its cluster"},
		{machine, `{"spec":{"clusterName":null}}`, "clusterName must not change: a Machine stays in its cluster"},
		{machine, `{"spec":{"infrastructureRef":{"kind":"K","name":"n"}}}`, "spec.infrastructureRef.apiGroup: Required value"},
		{machine, `{"spec":{"infrastructureRef":{"apiGroup":"g.dev/v1","kind":"K","name":"n"}}}`, "spec.infrastructureRef.apiGroup"},
		{machine, `{"spec":{"deletion":{"nodeDrainTimeoutSeconds":-1}}}`, "should be greater than or equal to 0"},
		{machine, `{"spec":{"taints":[{"key":"k","effect":"Never","propagation":"Always"}]}}`, `supported values: "NoSchedule"`},
		{machine, `{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}`, "spec.taints[0].propagation: Required value"},
		{templated, `{"spec":{"clusterName":"d","template":{"spec":{"clusterName":"d"}}}}`, "clusterName must not change: a Machine"},
		{check, `{"spec":{"clusterName":"d"}}`, "clusterName must not change: a MachineHealthCheck stays in its cluster"},
		{templated, `{"spec":{"template":{"spec":{"clusterName":"d"}}}}`, "clusterName and template.spec.clusterName must be equal"},
		{templated, `{"spec":{"template":{"spec":{"version":"1.36.3"}}}}`, "give a Kubernetes version with its leading v"},
		{templated, `{"spec":{"replicas":-1}}`, "spec.replicas: Invalid value: -1"},
		{selecting, `{"spec":{"selector":{"matchLabels":null}}}`, "an empty selector selects all Machines"},
		{selecting, `{"spec":{"selector":{"matchExpressions":[{"key":"k","operator":"In"}]}}}`, "In and NotIn need values"},
		{selecting, `{"spec":{"selector":{"matchExpressions":[{"key":"k","operator":"Exists","values":["v"]}]}}}`, "Exists and DoesNotExist have none"},
		{selecting, `{"spec":{"selector":{"matchExpressions":[{"key":"k","operator":"Like"}]}}}`, `supported values: "In", "NotIn"`},
		{sets, `{"spec":{"selector":{"matchLabels":{"pool":"b"}}}}`, "template.metadata.labels must have all labels of selector.matchLabels"},
		{sets, `{"spec":{"template":{"metadata":null}}}`, "template.metadata.labels must have all labels of selector.matchLabels"},
		{sets, `{"spec":{"machineNaming":{"template":"{{ .machineSet.name }}"}}}`, "the template must contain {{ .random }}"},
		{sets, `{"spec":{"deletion":{"order":"Cheapest"}}}`, `supported values: "Random", "Newest", "Oldest"`},
		{deployment, `{"spec":{"rollout":{"strategy":{"type":"Recreate"}}}}`, `supported values: "RollingUpdate", "OnDelete"`},
		{deployment, `{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxSurge":0}}}}}`, "must not both be 0: no Machine could be replaced"},
		{deployment, `{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxSurge":"0%"}}}}}`, "must not both be 0: no Machine could be replaced"},
		{deployment, `{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxSurge":"half"}}}}}`, "a percentage such as 10%"},
		{deployment, `{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxUnavailable":"101%"}}}}}`, "a percentage up to 100%"},
		{deployment, `{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxUnavailable":-1}}}}}`, "give a number of at least 0"},
		{deployment, `{"spec":{"remediation":{"maxInFlight":"many"}}}`, "give a number of at least 0, or a percentage up to 100%"},
		{pool, `{"spec":{"template":{"spec":{"infrastructureRef":null}}}}`, "give template.spec.infrastructureRef: the provider's pool makes the instances"},
		{class, `{"spec":{"providerSpec":null}}`, "spec.providerSpec: Required value"},
		{class, `{"spec":{"providerSpec":["cpu"]}}`, "spec.providerSpec: Invalid value: \"array\""},
		{class, `{"spec":{"secretRef":{"name":null}}}`, "spec.secretRef.name: Required value"},
		{class, `{"spec":{"credentialsSecretRef":{"name":"Not_A_Name"}}}`, "spec.credentialsSecretRef.name"},
		{check, `{"spec":{"checks":{"nodeStartupTimeoutSeconds":29}}}`, "give at least 30 seconds, or 0 for no limit"},
		{check, `{"spec":{"checks":{"unhealthyMachineConditions":[{"type":"Ready","status":"True","timeoutSeconds":1}]}}}`, "depend on this check"},
		{check, `{"spec":{"checks":{"unhealthyNodeConditions":[{` + gate + `}]}}}`, "timeoutSeconds: Required value"},
		{check, `{"spec":{"remediation":{"triggerIf":{"unhealthyInRange":"[5-3]"}}}}`, "give a range such as [3-5], with the smaller number first"},
		{check, `{"spec":{"remediation":{"triggerIf":{"unhealthyInRange":"3-5"}}}}`, "give a range such as [3-5], with the smaller number first"},
		{check, `{"spec":{"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":"half"}}}}`, "a percentage up to 100%"},
		{check, `{"spec":{"remediation":{"templateRef":{"kind":"K","name":"n","apiVersion":"v1"}}}}`, "spec.remediation.templateRef.apiVersion"},
	}
}
