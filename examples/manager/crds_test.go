package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/fake"
)

// namesOf are the names of objects in YAML documents.
func namesOf(t *testing.T, text string) []string {
	t.Helper()
	var names []string
	for _, document := range documents(text) {
		var obj struct {
			Kind     string
			Metadata struct{ Name string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &obj))
		require.Equal(t, "CustomResourceDefinition", obj.Kind)
		names = append(names, obj.Metadata.Name)
	}
	return names
}

func TestTheOwnCRDsArePrinted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.Equal(t, exitDone, execute([]string{"--print-crds"}, &out, io.Discard))
	require.Equal(t, []string{
		"machines.machinist.dev", "machineclasses.machinist.dev", "machinedeployments.machinist.dev", "machinehealthchecks.machinist.dev",
		"machinepools.machinist.dev", "machinesets.machinist.dev",
	}, namesOf(t, out.String()))
}

func TestTheCRDsThatFlagsNeedAreInstalledWithTheRightForThemOnly(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--api-group=machinist.dev": "machineclasses.machinist.dev,machinedeployments.machinist.dev,machinehealthchecks.machinist.dev," +
			"machinepools.machinist.dev,machines.machinist.dev,machinesets.machinist.dev",
		"--machinepools --machinepool-group=machinist.dev": "machinepools.machinist.dev",
		"--driver=kwok": "machineclasses.machinist.dev",
		"--driver=kwok --driver-as=inframachine": "kwokmachines.infrastructure.cluster.x-k8s.io," +
			"kwokmachinetemplates.infrastructure.cluster.x-k8s.io",
	} {
		args := append(strings.Fields(flags), "--print-rbac")
		require.NotContains(t, rightsOf(t, args...), "apiextensions.k8s.io/customresourcedefinitions "+want, "without the flag")
		require.Subset(t, rightsOf(t, append(args, "--install-crds")...)["apiextensions.k8s.io/customresourcedefinitions "+want],
			[]string{"create", "patch"}, flags)
	}
	_, err := parse([]string{"--install-crds"}, io.Discard)
	require.ErrorContains(t, err, "--install-crds: the other flags need no CRD of the manager's own: give --api-group=machinist.dev")
}

func TestTheGroupOfTheFlagIsThatOfAllKinds(t *testing.T) {
	t.Parallel()
	all := []string{"--print-rbac", "--machinesets", "--machinedeployments", "--machinepools", "--machinehealthchecks", "--driver=kwok"}
	own := rightsOf(t, append(all, "--api-group=machinist.dev")...)
	for right := range own {
		kind, _, _ := strings.Cut(strings.TrimPrefix(right, "cluster.x-k8s.io/"), "/")
		require.False(t, strings.HasPrefix(right, "cluster.x-k8s.io/") && kind != "machinedrainrules", "%s is Cluster API's", right)
	}
	theirs := rightsOf(t, all...)
	for _, resource := range []string{"machines", "machinesets", "machinedeployments", "machinepools", "machinehealthchecks"} {
		require.Equal(t, theirs["cluster.x-k8s.io/"+resource], own["machinist.dev/"+resource], resource)
		require.NotContains(t, theirs, "machinist.dev/"+resource)
	}
	require.Contains(t, rightsOf(t, append(all, "--api-group=machinist.dev", "--clusters=always")...), "cluster.x-k8s.io/clusters")
	for _, args := range [][]string{nil, {"rollout", "status", "workers"}, {"orphans", "--driver=kwok"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitUsage, execute(append(args, "--api-group=example.com"), io.Discard, &stderr))
		require.Contains(t, stderr.String(), `--api-group "example.com": give cluster.x-k8s.io, machinist.dev, cluster.k8s.io or `+
			"machine.sapcloud.io")
	}
}

func TestMissingCRDsOfOurOwnAreExplained(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	own := settings{options.Options{Kinds: options.Kinds{Group: api.Machinist}}}
	_, err := newManager(t.Context(), store.RESTConfig(), own, logr.Discard())
	require.ErrorContains(t, err, "does not serve machines of machinist.dev/v1beta2: give --install-crds, or apply what --print-crds prints")
}

func TestPoolsOfOurGroupMakeMachinesOfIt(t *testing.T) {
	t.Parallel()
	own := settings{options.Options{Kinds: options.Kinds{Group: api.Machinist}}}
	made, err := poolKinds(own).NewMachine(
		&contract.MachinePoolState{ReplicatedState: contract.ReplicatedState{ClusterName: "c"}},
		contract.MachineSeed{Infrastructure: contract.Ref{Group: "g.dev", Kind: "K", Name: "n"}})
	require.NoError(t, err)
	require.Equal(t, "machinist.dev/v1beta2, Kind=Machine", made.GetObjectKind().GroupVersionKind().String())
	alone, err := poolKinds(own).NewMachine(&contract.MachinePoolState{}, contract.MachineSeed{})
	require.NoError(t, err)
	require.NotContains(t, alone.(*unstructured.Unstructured).Object["spec"], "clusterName", "the CRD refuses the empty name")
	mixed := poolKinds(settings{options.Options{Kinds: options.Kinds{Group: api.ClusterAPI, PoolGroup: api.Machinist}}})
	require.Equal(t, "machinist.dev cluster.x-k8s.io", mixed.Pool.GVK.Group+" "+mixed.Machine.GVK.Group)
}
