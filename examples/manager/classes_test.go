package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
)

// ownClasses are two MachineClasses of machinist.dev, of which the driver refuses the second one.
const ownClasses = `
apiVersion: machinist.dev/v1beta2
kind: MachineClass
metadata: {name: small, namespace: default}
spec: {providerSpec: {cpu: "2"}}
---
apiVersion: machinist.dev/v1beta2
kind: MachineClass
metadata: {name: large, namespace: default}
spec: {providerSpec: {cpu: many}}
`

// ofOwnClasses are a deployment of the first class and a Machine of the second one, in a group.
const ofOwnClasses = `
apiVersion: %[1]s
kind: MachineDeployment
metadata: {name: workers, namespace: default}
spec:
  clusterName: demo
  replicas: 2
  selector: {matchLabels: {pool: workers}}
  template:
    metadata: {labels: {pool: workers}}
    spec:
      clusterName: demo
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: machinist.dev, kind: MachineClass, name: small}
---
apiVersion: %[1]s
kind: Machine
metadata: {name: vm1, namespace: default}
spec:
  clusterName: demo
  bootstrap: {dataSecretName: boot}
  infrastructureRef: {apiGroup: machinist.dev, kind: MachineClass, name: large}
`

// TestMachineClassesSayWhatIsMade has Machines of both groups name MachineClasses of machinist.dev, which sets do not clone.
func TestMachineClassesSayWhatIsMade(t *testing.T) {
	t.Parallel()
	for _, group := range []api.Group{api.ClusterAPI, api.Machinist} {
		t.Run(string(group), func(t *testing.T) {
			t.Parallel()
			store := fake.NewStore(fake.Options{})
			create(t, store.Client(), api.CRDs())
			if group == api.ClusterAPI {
				for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment"} {
					require.NoError(t, store.Client().Create(t.Context(), fake.CRD(group.GroupVersion().WithKind(kind))))
				}
			}
			large := create(t, store.Client(), ownClasses)[1]
			o := given(t, "--machinesets", "--machinedeployments", "--api-group="+string(group), "--driver=kwok", "--driver-qps=1000",
				"--status-delay=0", "--clusters=never")
			runMachines(t, store, storeManager(t, store, group), o)
			made := create(t, store.Client(), fmt.Sprintf(ofOwnClasses, group.GroupVersion()))
			cpusAre(t, store, "2 2")
			infrastructureSays(t, store, group, made[1], `InvalidConfiguration: kwok: MachineClass default/large: cpu "many"`)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerSpec":{"cpu":"8"}}}`))
			require.NoError(t, store.Client().Patch(t.Context(), large, patch))
			cpusAre(t, store, "2 2 8")
			patch = client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":"large"}}}}}`))
			require.NoError(t, store.Client().Patch(t.Context(), made[0], patch))
			cpusAre(t, store, "8 8 8")
			for _, obj := range made {
				require.NoError(t, store.Client().Delete(t.Context(), obj))
			}
			cpusAre(t, store, "")
			eventually(t, "the end of the deployment", func(ctx context.Context) string {
				err := store.Client().Get(ctx, client.ObjectKeyFromObject(made[0]), made[0])
				if apierrors.IsNotFound(err) {
					return ""
				}
				return fmt.Sprint(err, made[0].Object["status"])
			})
		})
	}
}

// cpusAre waits until the Nodes have these CPUs, sorted.
func cpusAre(t *testing.T, store *fake.Store, want string) {
	t.Helper()
	eventually(t, "CPUs "+want, func(ctx context.Context) string {
		var nodes corev1.NodeList
		require.NoError(t, store.Client().List(ctx, &nodes))
		var cpus []string
		for i := range nodes.Items {
			cpus = append(cpus, nodes.Items[i].Status.Capacity.Cpu().String())
		}
		slices.Sort(cpus)
		if got := strings.Join(cpus, " "); got != want {
			return "there are " + got
		}
		return ""
	})
}

// infrastructureSays waits until the condition InfrastructureReady of a Machine says something.
func infrastructureSays(t *testing.T, store *fake.Store, group api.Group, m *unstructured.Unstructured, want string) {
	t.Helper()
	eventually(t, want, func(ctx context.Context) string {
		require.NoError(t, store.Client().Get(ctx, client.ObjectKeyFromObject(m), m))
		layout := group.Layouts().Machine
		var state contract.MachineState
		require.NoError(t, contract.Unstructured(m.GroupVersionKind(), layout).Adapter.Read(m, &state))
		c := cmp.Or(meta.FindStatusCondition(state.Conditions, contract.ConditionInfrastructureReady), &metav1.Condition{})
		if strings.Contains(c.Reason+": "+c.Message, want) {
			return ""
		}
		return fmt.Sprint(c)
	})
}
