//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestE2EMachineClassesSayWhatIsMade has a MachineDeployment and a Machine name MachineClasses of machinist.dev. The class of the Machine is
// refused until it is mended, and then the deployment rolls out to that class.
func TestE2EMachineClassesSayWhatIsMade(t *testing.T) {
	w := newBareWorld(t, shared(t))
	w.startManager([]string{"--api-group=machinist.dev", "--install-crds", "--machinesets", "--machinedeployments", "--driver=kwok"})
	w.servesOwnKinds()
	made := w.apply(`
apiVersion: machinist.dev/v1beta2
kind: MachineClass
metadata: {name: small, namespace: default}
spec: {providerSpec: {cpu: "2"}}
---
apiVersion: machinist.dev/v1beta2
kind: MachineClass
metadata: {name: large, namespace: default}
spec: {providerSpec: {cpu: many}, secretRef: {name: of-another-driver}}
---
apiVersion: machinist.dev/v1beta2
kind: MachineDeployment
metadata: {name: of-a-class, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {pool: of-a-class}}
  template:
    metadata: {labels: {pool: of-a-class}}
    spec: {infrastructureRef: {apiGroup: machinist.dev, kind: MachineClass, name: small}}
---
apiVersion: machinist.dev/v1beta2
kind: Machine
metadata: {name: vm1, namespace: default}
spec: {infrastructureRef: {apiGroup: machinist.dev, kind: MachineClass, name: large}}
`)
	large, deployment, vm := made[1], made[2], made[3]
	w.cpusAre("2 2")
	w.eventually("the refusal", func() string {
		text := fmt.Sprint(w.get(vm).Object["status"])
		if strings.Contains(text, `kwok: MachineClass default/large: cpu "many": give a quantity above zero`) {
			return ""
		}
		return text
	})
	change := func(obj client.Object, patch string) {
		t.Helper()
		require.NoError(t, w.client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	change(large, `{"spec":{"providerSpec":{"cpu":"8"}}}`)
	w.cpusAre("2 2 8")
	change(deployment, `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"large"}}}}}`)
	w.cpusAre("8 8 8")
	w.runningAs(api.Machinist, []string{"status", "phase"}, 3)
	class := w.get(large).GetResourceVersion()
	change(deployment, `{"spec":{"template":{"metadata":{"labels":{"tier":"gold"}}}}}`)
	w.eventually("the label on the Machines of the deployment, and on their counter", func() string {
		machines := w.listed(vm.GroupVersionKind())
		n := 0
		for i := range machines {
			if machines[i].GetLabels()["tier"] == "gold" {
				n++
			}
		}
		if n != 2 {
			return fmt.Sprint(n)
		}
		return ""
	})
	require.Equal(t, class, w.get(large).GetResourceVersion(), "nobody writes to what Machines share")
	require.NoError(t, w.client.Delete(t.Context(), vm))
	require.NoError(t, w.client.Delete(t.Context(), deployment))
	w.gone(vm, deployment)
	w.cpusAre("")
	for _, class := range made[:2] {
		require.NoError(t, w.client.Delete(t.Context(), class))
	}
}

// cpusAre waits until the Nodes of the driver have these CPUs, sorted.
func (w *world) cpusAre(want string) {
	w.t.Helper()
	w.eventually("CPUs "+want, func() string {
		var cpus []string
		for _, node := range w.kwokNodes() {
			cpus = append(cpus, node.Status.Capacity.Cpu().String())
		}
		slices.Sort(cpus)
		if got := strings.Join(cpus, " "); got != want {
			return "there are " + got
		}
		return ""
	})
}
