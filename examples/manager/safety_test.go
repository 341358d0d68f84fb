package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/guard"
)

func TestTheOrphansCommandSaysWhatIsWrongWithItsFlags(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "--driver is missing: give kwok"},
		{[]string{"--driver=kwok", "-o", "yaml"}, exitUsage, `-o "yaml": give json`},
		{[]string{"--driver=cloud"}, exitUsage, `--driver "cloud"`},
		{[]string{"--driver=kwok", "now"}, exitUsage, `unexpected argument "now"`},
		{[]string{"--driver=kwok", "--kubeconfig", missing}, exitFailed, missing},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, c.code, execute(append([]string{"orphans"}, c.args...), &out, &errs))
		require.Contains(t, errs.String(), c.want)
	}
	var out bytes.Buffer
	require.Equal(t, exitDone, execute([]string{"orphans", "--help"}, &out, os.Stderr))
	require.Contains(t, out.String(), "It deletes nothing")
}

func TestOrphansArePrintedAsATableAndAsJSON(t *testing.T) {
	t.Parallel()
	report := guard.Report{
		DryRun: true, Blocked: map[string]string{"default/other": "the cluster has no Machine"},
		Orphans: []guard.Orphan{{
			Instance: guard.Instance{Cluster: "default/demo", ProviderID: "kwok://a", Name: "a", Token: "1"}, Waits: "1 of 3 confirmations",
		}},
	}
	var out bytes.Buffer
	require.NoError(t, printOrphans(&out, report, ""))
	require.Equal(t, "default/other: the cluster has no Machine\n"+
		"CLUSTER        PROVIDER-ID   NAME   TOKEN   WAITS\n"+
		"default/demo   kwok://a      a      1       1 of 3 confirmations\n", out.String())
	out.Reset()
	require.NoError(t, printOrphans(&out, report, outputJSON))
	var read guard.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, report, read)
}

// The steps of the flags fit the reconciler of sets: one of a cluster that does not answer creates nothing, and says why.
func TestASetOfAClusterThatDoesNotAnswerCreatesNothing(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t, fake.Options{Kinds: []fake.ServedKind{
		{GVK: fake.MachineGVK(), Status: true}, {GVK: api.ClusterAPI.MachineSet().GVK, Status: true},
	}}, fake.Loops{}, nil)
	mgr := storeManager(t, env.Store, api.ClusterAPI)
	gate, err := guard.NewGate(guard.GateOptions{
		Management:  guard.Answers(mgr.GetAPIReader(), api.ClusterAPI.Machine(), "default"),
		Workload:    func(context.Context, types.NamespacedName) error { return errors.New("connection refused") },
		Initialized: func(context.Context, types.NamespacedName) bool { return true },
	})
	require.NoError(t, err)
	require.NoError(t, mgr.Add(gate))
	o := given(t, "--machine-safety-freeze-all")
	steps := machineset.Steps().InsertBefore(machineset.StepHolds, guard.HoldStep[*machineset.Scope](gate))
	sets := freezing(o, safeguards{gate: gate}, steps, machineset.StepPaused)
	require.Positive(t, engine.Position(sets, guard.StepGateFreeze, engine.InBoth))
	machines := freezing(o, safeguards{gate: gate}, machine.Steps(), machine.StepPaused)
	require.Positive(t, engine.Position(machines, guard.StepGateFreeze, engine.InBoth))
	_, err = machineset.SetupWithManager(t.Context(), mgr, kindsOf(api.ClusterAPI), machineset.Options{
		Options: pass.Options{Name: "held"}, Steps: steps,
	})
	require.NoError(t, err)
	env.Run(mgr)
	set := testenv.Object(api.ClusterAPI.MachineSet().GVK, "workers")
	labels := map[string]any{"pool": "workers"}
	set.Object["spec"] = map[string]any{
		"clusterName": "demo", "replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
			"clusterName": "demo", "bootstrap": map[string]any{"dataSecretName": "data"},
		}},
	}
	env.Create(set)
	env.AwaitCondition(set, contract.ConditionScalingUp, "", "the API server of cluster default/demo has not answered", "connection refused")
	require.Empty(t, env.List(fake.MachineGVK()))
}
