//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

// TestE2EClusterctlDescribesOurMachinesAsItDescribesThoseOfClusterAPI has Cluster API's manager make a Machine of a
// MachineDeployment, gives it a twin that our manager leads from its birth, and has clusterctl describe both: the twin must have every
// condition that the other has, with the same status and reason, and none that is Unknown.
func TestE2EClusterctlDescribesOurMachinesAsItDescribesThoseOfClusterAPI(t *testing.T) {
	printf := progress.New(os.Stderr, "describe")
	program, err := arm.BuildCAPI(t.Context(), printf)
	require.NoError(t, err)
	clusterctl, err := arm.BuildClusterctl(t.Context(), printf)
	require.NoError(t, err)
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr}) // its own: no other test can have a second manager
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	w := newBareWorld(t, plane)
	require.NoError(t, (&arm.Objects{Client: w.client, Plane: plane, Cluster: describedCluster}).Install(t.Context()))
	w.startProviders(worldOptions{})

	theirs := w.machineOfClusterAPI(program)
	want := described(t, clusterctl, plane.Kubeconfig(), "Machine/"+theirs.GetName())
	ours := w.twinOf(theirs)
	for kind, name := range map[string]string{"MachineSet": theirs.GetOwnerReferences()[0].Name, "MachineDeployment": describedCluster} {
		owner := &unstructured.Unstructured{}
		owner.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind})
		owner.SetNamespace("default")
		owner.SetName(name)
		require.NoError(t, w.client.Patch(t.Context(), owner, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))))
	}
	w.startManager([]string{"--machinesets", "--machinedeployments"}) // the owner of a Machine sets UpToDate
	w.ready(ours)
	var got map[string]string
	w.eventually("clusterctl to describe both alike", func() string {
		got = described(t, clusterctl, plane.Kubeconfig(), "Machine/"+ours.GetName())
		return cmp.Diff(want, got)
	})
	for kind, says := range got {
		if strings.HasPrefix(says, string(metav1.ConditionUnknown)) {
			t.Errorf("%s is %s", kind, says)
		}
	}
}

const describedCluster = "described"

// machineOfClusterAPI runs Cluster API's manager until it has led a Machine of a MachineDeployment to being available.
func (w *world) machineOfClusterAPI(program string) *unstructured.Unstructured {
	w.t.Helper()
	manager, err := arm.StartCAPI(program, w.plane)
	require.NoError(w.t, err)
	defer manager.Stop()
	infra, config := template(fake.InfraMachineGVK(contract.V1Beta2)), template(fake.BootstrapConfigGVK(contract.V1Beta2))
	require.NoError(w.t, cluster.InstallCRDs(w.t.Context(), w.plane.Config(), fake.CRD(infra, contract.V1Beta2),
		fake.CRD(config, contract.V1Beta2)))
	w.apply(deploymentOf(infra, config))
	var made unstructured.Unstructured
	w.eventually("Cluster API's Machine to be available", func() string {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(fake.MachineGVK())
		err := w.client.List(w.t.Context(), list, client.MatchingLabels{"cluster.x-k8s.io/deployment-name": describedCluster})
		if err != nil || len(list.Items) != 1 {
			return fmt.Sprintf("there are %d Machines: %v", len(list.Items), err)
		}
		made = list.Items[0]
		for _, kind := range []string{"Available", "UpToDate"} {
			c, _, err := contract.ConditionsAt("status", "conditions").Find(made.Object, kind)
			if err != nil || c.Status != metav1.ConditionTrue {
				return describe(&made)
			}
		}
		return ""
	})
	return &made
}

func template(of schema.GroupVersionKind) schema.GroupVersionKind {
	of.Kind += "Template"
	return of
}

// deploymentOf is a MachineDeployment of one Machine, with everything that Cluster API's webhooks would have filled in.
func deploymentOf(infra, config schema.GroupVersionKind) string {
	return fmt.Sprintf(`apiVersion: %[2]s
kind: %[3]s
metadata: {name: %[1]s, namespace: default}
spec: {template: {spec: {}}}
---
apiVersion: %[4]s
kind: %[5]s
metadata: {name: %[1]s, namespace: default}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: %[1]s
  namespace: default
  labels: {cluster.x-k8s.io/cluster-name: %[1]s}
spec:
  clusterName: %[1]s
  replicas: 1
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
  deletion: {order: Random}
  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: %[1]s, cluster.x-k8s.io/deployment-name: %[1]s}}
  template:
    metadata:
      labels: {cluster.x-k8s.io/cluster-name: %[1]s, cluster.x-k8s.io/deployment-name: %[1]s}
    spec:
      clusterName: %[1]s
      bootstrap:
        configRef: {apiGroup: %[6]s, kind: %[5]s, name: %[1]s}
      infrastructureRef: {apiGroup: %[7]s, kind: %[3]s, name: %[1]s}
`, describedCluster, infra.GroupVersion(), infra.Kind, config.GroupVersion(), config.Kind, config.Group, infra.Group)
}

// twinOf creates a Machine of the same MachineSet, which was not reconciled yet.
func (w *world) twinOf(other *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	const name = "twin"
	for _, obj := range []*unstructured.Unstructured{
		fake.InfraMachine(contract.V1Beta2, name), fake.BootstrapConfig(contract.V1Beta2, name),
	} {
		require.NoError(w.t, w.client.Create(w.t.Context(), obj))
	}
	twin := fake.Machine(name, fake.WithLabels(other.GetLabels()), fake.WithAnnotations(other.GetAnnotations()),
		fake.WithField(describedCluster, "spec", "clusterName"))
	delete(twin.GetAnnotations(), contract.NodeUIDAnnotation)
	twin.SetOwnerReferences(other.GetOwnerReferences())
	require.NoError(w.t, w.client.Create(w.t.Context(), twin))
	return twin
}

// described returns the status and reason of each condition that clusterctl shows of an object, such as Machine/m1.
func described(t *testing.T, clusterctl, kubeconfig, object string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), clusterctl, "describe", "cluster", describedCluster, "--namespace", "default",
		"--kubeconfig", kubeconfig, "--show-conditions", "all", "--grouping=false")
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	shown := conditionsShown(string(out), object)
	require.NotEmpty(t, shown, "clusterctl shows no condition of %s:\n%s", object, out)
	return shown
}

// conditionsShown reads the rows below an object's, up to the next object's. A condition's row is its type, status and reason, behind
// the lines that draw the tree.
func conditionsShown(out, object string) map[string]string {
	shown, inside := map[string]string{}, false
	statuses := []string{string(metav1.ConditionTrue), string(metav1.ConditionFalse), string(metav1.ConditionUnknown)}
	for line := range strings.Lines(out) {
		words := strings.Fields(strings.TrimLeft(line, " │├└─"))
		if len(words) == 0 {
			continue
		}
		switch {
		case strings.Contains(words[0], "/"):
			inside = words[0] == object
		case inside && len(words) > 2 && slices.Contains(statuses, words[1]):
			shown[words[0]] = words[1] + " " + words[2]
		}
	}
	return shown
}
