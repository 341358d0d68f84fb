package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// The programs of a deployment, of its set and of its Machines, a cloud, and a person who scales.
func TestMachinesComeAndGo(t *testing.T) {
	kinds := contract.Kubermatic()
	env := testenv.Start(t, fake.Options{Kinds: []fake.ServedKind{
		{GVK: kinds.Deployment.GVK, Status: true}, {GVK: kinds.Set.GVK, Status: true}, {GVK: kinds.Machine.GVK},
	}}, fake.AllLoops(), nil)
	ca, err := os.ReadFile("../../machine/userdata/testdata/ca.pem")
	require.NoError(t, err)
	cloud := fake.NewDriver(fake.DriverOptions{})
	mgr := env.Manager("minimal", ctrl.Options{})
	require.NoError(t, setup(t.Context(), mgr, cloud, userdata.Cluster{Server: "https://192.0.2.1:6443", CA: string(ca)}))
	env.Run(mgr)

	labels := map[string]any{"pool": "workers"}
	workers := testenv.Object(kinds.Deployment.GVK, "workers")
	template := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
		"versions": map[string]any{"kubelet": "1.36.3"},
		"providerSpec": map[string]any{"value": map[string]any{
			"operatingSystem": "ubuntu", "cloudProviderSpec": map[string]any{"size": "small"},
		}},
	}}
	selector := map[string]any{"matchLabels": labels}
	workers.Object["spec"] = map[string]any{"replicas": int64(2), "selector": selector, "template": template}
	env.Create(workers)
	joined := map[string]bool{}
	running := func(want int) {
		env.Eventually("the Machines run", func() string {
			all := env.List(kinds.Machine.GVK)
			for i := range all {
				if id, _, _ := unstructured.NestedString(all[i].Object, "spec", "providerID"); id != "" && !joined[id] { // the machine boots
					joined[id] = true
					env.Create(fake.Node(all[i].GetName(), id))
				}
				if phase, _, _ := unstructured.NestedString(all[i].Object, "status", "phase"); phase != "Running" {
					return "phase " + phase + testenv.Describe(&all[i])
				}
			}
			return map[bool]string{false: "there are others"}[len(all) == want]
		})
	}
	running(2)
	for _, m := range env.List(kinds.Machine.GVK) {
		require.Equal(t, 1, cloud.Made(string(m.GetUID())))
		boot, err := userdata.Parse([]byte(cloud.UserData(string(m.GetUID()))))
		require.NoError(t, err)
		require.Equal(t, m.GetName(), boot.NodeName)
	}
	require.Equal(t, 2, env.Store.CountRequests(fake.Match("create", schema.GroupKind{Kind: "Secret"}, "")), "a token for each")
	env.Eventually("the tokens are gone", func() string {
		var tokens corev1.SecretList
		require.NoError(t, env.Client.List(t.Context(), &tokens))
		return map[bool]string{false: "some are there"}[len(tokens.Items) == 0]
	})

	env.Change(workers, func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["replicas"] = int64(1) })
	running(1)
	require.NoError(t, env.Client.Delete(t.Context(), workers))
	env.Eventually("all is gone", func() string {
		var nodes corev1.NodeList
		require.NoError(t, env.Client.List(t.Context(), &nodes))
		return map[bool]string{false: "there are Machines or Nodes"}[len(env.List(kinds.Machine.GVK))+len(nodes.Items) == 0]
	})
}
