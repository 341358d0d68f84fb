//go:build e2e

package e2e_test

import (
	"fmt"
	"testing"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/internal/apitest/published"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// foreignMachine is what a user of another system writes, and what kubectl prints then.
type foreignMachine struct {
	objects, spec string
	columns       map[string]string
	phase         []string // where it is
}

func foreignMachines() map[string]foreignMachine {
	return map[string]foreignMachine{
		"Kubermatic": {
			spec: `{versions: {kubelet: 1.36.3},
      providerSpec: {value: {cloudProvider: kwok, operatingSystem: flatcar, cloudProviderSpec: {cpu: "2"}}}}`,
			columns: map[string]string{"Provider": "kwok", "OS": "flatcar", "Kubelet": "1.36.3"},
			phase:   []string{"status", "phase"},
		},
		"Gardener": {
			objects: `
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: {name: small, namespace: default}
provider: kwok
providerSpec: {cpu: "2"}
secretRef: {name: of-another-provider, namespace: default}
`,
			spec:    `{class: {kind: MachineClass, name: small}}`,
			columns: map[string]string{"Status": "Running"},
			phase:   []string{"status", "currentStatus", "phase"},
		},
	}
}

// TestE2EMachinesOfOtherSystemsAreCreatedListedAndDeleted has the CRDs of those systems served by the manager, with the rights that it
// prints: a Machine vm1, and a MachineDeployment.
func TestE2EMachinesOfOtherSystemsAreCreatedListedAndDeleted(t *testing.T) {
	for name, system := range otherSystems() {
		t.Run(name, func(t *testing.T) {
			m, group := foreignMachines()[name], api.Group(system.kinds.Machine.GVK.Group)
			all, err := published.CRDs(t.Context(), system.module, system.crds)
			require.NoError(t, err)
			w := newBareWorld(t, shared(t))
			for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment", "MachineClass"} {
				if all[kind] != nil {
					require.NoError(t, cluster.InstallCRDs(t.Context(), w.plane.Config(), all[kind]))
				}
			}
			w.startManager([]string{"--api-group=" + string(group), "--machinesets", "--machinedeployments", "--driver=kwok"})
			if m.objects != "" {
				w.apply(m.objects)
			}
			made := w.apply(fmt.Sprintf(`
apiVersion: %[1]s
kind: Machine
metadata: {name: vm1, namespace: default}
spec: %[2]s
---
apiVersion: %[1]s
kind: MachineDeployment
metadata: {name: of-another-system, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {pool: of-another-system}}
  template: {metadata: {labels: {pool: of-another-system}}, spec: %[2]s}
`, group.GroupVersion(), m.spec))
			w.runningAs(group, m.phase, 3)
			shown := w.row(made[0])
			require.Equal(t, "vm1", shown["Name"])
			require.Contains(t, shown["Node"], "vm1-")
			for column, want := range m.columns {
				require.Equal(t, want, shown[column], column)
			}
			for _, node := range w.kwokNodes() {
				require.Equal(t, "2", node.Status.Capacity.Cpu().String())
			}
			for _, obj := range made {
				require.NoError(t, w.client.Delete(t.Context(), obj))
			}
			w.gone(made[0], made[1])
			require.Empty(t, w.kwokNodes())
			require.Empty(t, w.listed(group.Machine().GVK))
		})
	}
}

// runningAs waits until as many Machines of a group are Running, and no other is there.
func (w *world) runningAs(group api.Group, place []string, want int) {
	w.t.Helper()
	w.eventually(fmt.Sprint(want, " Machines of ", group), func() string {
		all := w.listed(group.Machine().GVK)
		for i := range all {
			if phase, _, _ := unstructured.NestedString(all[i].Object, place...); phase != "Running" {
				return fmt.Sprint(all[i].GetName(), " is ", phase, ": ", describe(&all[i]))
			}
		}
		if len(all) != want {
			return fmt.Sprint(len(all), " are there")
		}
		return ""
	})
}
