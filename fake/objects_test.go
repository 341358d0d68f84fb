package fake_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
	"github.com/machinist-dev/machinist/fake"
)

func TestProviderObjects(t *testing.T) {
	for _, v := range []contract.Version{contract.V1Alpha3, contract.V1Alpha4, contract.V1Beta1, contract.V1Beta2} {
		t.Run(string(v), func(t *testing.T) {
			t.Run("an InfraMachine is new, provisioned or failed", func(t *testing.T) {
				read := func(options ...fake.Option) (s contract.InfraMachineState) {
					infra := fake.InfraMachine(v, "a", options...)
					fulfils(t, infra, conformance.InfraMachine, v)
					require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(infra, &s))
					return s
				}
				require.Equal(t, contract.InfraMachineState{}, read())
				address := contract.Address{Type: "ExternalIP", Address: "192.0.2.1"}
				done := read(fake.Provisioned("aws:///i-1"), fake.Addresses(address))
				require.True(t, done.Provisioned)
				require.Equal(t, "aws:///i-1", done.ProviderID)
				require.Equal(t, []contract.Address{address}, done.Addresses)
				require.Equal(t, "True", string(done.Ready.Or(metav1.Condition{}).Status))
				failed := read(fake.Failed("QuotaExceeded", "no more machines"))
				require.Equal(t, "QuotaExceeded no more machines", failed.FailureReason+" "+failed.FailureMessage)
				require.Equal(t, "QuotaExceeded", failed.Ready.Or(metav1.Condition{}).Reason)
			})
			t.Run("a BootstrapConfig has its Secret or not", func(t *testing.T) {
				read := func(options ...fake.Option) (s contract.BootstrapConfigState) {
					config := fake.BootstrapConfig(v, "a", options...)
					fulfils(t, config, conformance.BootstrapConfig, v)
					require.NoError(t, contract.LayoutsOf(v).BootstrapConfig.Read(config, &s))
					return s
				}
				require.False(t, read().DataSecretCreated)
				done := read(fake.DataSecret("data"))
				require.True(t, done.DataSecretCreated)
				require.Equal(t, "data", done.DataSecretName.Or(""))
			})
			t.Run("an InfraMachinePool has instances", func(t *testing.T) {
				pool := fake.InfraMachinePool(v, "a", fake.Instances("aws:///i-1", "aws:///i-2"))
				fulfils(t, pool, conformance.InfraMachinePool, v)
				var s contract.InfraMachinePoolState
				require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(pool, &s))
				require.True(t, s.Provisioned)
				require.Equal(t, []string{"aws:///i-1", "aws:///i-2"}, s.ProviderIDList)
			})
		})
	}
}

// fulfils requires that the lint of providers' objects finds nothing.
func fulfils(t *testing.T, obj *unstructured.Unstructured, role conformance.Role, v contract.Version) {
	t.Helper()
	require.Empty(t, conformance.CheckObject(obj, role, v).Findings)
}

func TestMachines(t *testing.T) {
	t.Run("a Machine is new until it runs as a Node", func(t *testing.T) {
		read := func(options ...fake.Option) (s contract.MachineState) {
			kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
			require.NoError(t, kind.Adapter.Read(fake.Machine("a", options...), &s))
			return s
		}
		require.Empty(t, read().Node.Name)
		node := fake.Node("n", "aws:///i-1")
		node.UID = "1"
		s := read(fake.Running(node))
		require.Equal(t, contract.NodeRef{Name: "n", UID: "1"}, s.Node)
		require.Equal(t, "aws:///i-1", s.ProviderID)
		require.True(t, s.BootstrapReady.Or(false) && s.InfrastructureReady.Or(false))
	})
	t.Run("objects share nothing", func(t *testing.T) {
		labels := map[string]string{"a": "b"}
		one, two := fake.Machine("one", fake.WithLabels(labels)), fake.Machine("two", fake.WithLabels(labels))
		labels["a"] = "c"
		require.NoError(t, unstructured.SetNestedField(one.Object, "d", "spec", "infrastructureRef", "name"))
		require.Equal(t, "b", two.GetLabels()["a"])
		name, _, _ := unstructured.NestedString(two.Object, "spec", "infrastructureRef", "name")
		require.Equal(t, "two", name)
	})
}
