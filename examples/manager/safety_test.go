package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/fake/testenv"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// defaultSafety are Gardener's defaults, and ours for what it does not have.
func defaultSafety() safetyOptions {
	return safetyOptions{
		limits: safety.Limits{Up: 2, Down: 1}, freezePeriod: time.Minute, gatePeriod: time.Minute, gateTolerance: 30 * time.Second,
		orphanPeriod: 15 * time.Minute, annotate: true, nodeAge: 20 * time.Minute,
		orphans: safety.OrphanLimits{Confirmations: 3, Age: 30 * time.Minute, PerPass: 1, StartDelay: 10 * time.Minute},
	}
}

func TestWrongFlagsOfTheSafetyAreExplained(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--safety-up=0": "--safety-up 0, --safety-down 1: give at least 1",
		"--machine-safety-apiserver-statuscheck-period=10s": "--machine-safety-apiserver-statuscheck-period 10s: give at least the timeout, 30s",
		"--machine-safety-orphan-vms-period=-1s":            "--machine-safety-...: give times such as 1m, or 0",
	} {
		_, err := parse([]string{flags}, io.Discard)
		require.ErrorContains(t, err, want)
	}
	_, err := parse([]string{"--machine-safety-collect-orphans", "--machine-safety-orphan-limit=0"}, io.Discard)
	require.ErrorContains(t, err, "--machine-safety-orphan-limit: give at least 1")
	_, err = parse([]string{"--machine-safety-overshooting-period=0", "--machine-safety-apiserver-statuscheck-period=0",
		"--machine-safety-orphan-vms-period=0"}, io.Discard)
	require.NoError(t, err, "each can be switched off")
}

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
		Orphans: []guard.ReportedOrphan{{Orphan: safety.Orphan{
			Instance: safety.Instance{Cluster: "default/demo", ProviderID: "kwok://a", Name: "a", Token: "1"}, Waits: "1 of 3 confirmations",
		}}},
	}
	var out bytes.Buffer
	require.NoError(t, printOrphans(&out, report, ""))
	require.Equal(t, "default/other: the cluster has no Machine\n"+
		"CLUSTER        PROVIDER-ID   NAME   TOKEN   WAITS\n"+
		"default/demo   kwok://a      a      1       1 of 3 confirmations\n", out.String())
	out.Reset()
	require.NoError(t, printOrphans(&out, report, logJSON))
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
	mgr := storeManager(t, env.Store)
	gate, err := guard.NewGate(guard.GateOptions{
		Management:  guard.Answers(mgr.GetAPIReader(), api.ClusterAPI.Machine(), "default"),
		Workload:    func(context.Context, types.NamespacedName) error { return errors.New("connection refused") },
		Initialized: func(context.Context, types.NamespacedName) bool { return true },
	})
	require.NoError(t, err)
	require.NoError(t, mgr.Add(gate))
	o := options{safety: safetyOptions{freezeAll: true}}
	steps, err := pass.InsertBefore(machineset.Steps(), machineset.StepHolds, guard.HoldStep[*machineset.Scope](gate))
	require.NoError(t, err)
	_, err = freezing(o, safeguards{gate: gate}, steps, machineset.StepPaused)
	require.NoError(t, err)
	_, err = freezing(o, safeguards{gate: gate}, machine.Steps(), machine.StepPaused)
	require.NoError(t, err)
	_, err = machineset.SetupWithManager(t.Context(), mgr, setKinds(api.ClusterAPI), machineset.Options{Name: "held", Steps: steps})
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
	env.Says(set, contract.ConditionScalingUp, "", "the API server of cluster default/demo has not answered", "connection refused")
	require.Empty(t, env.List(fake.MachineGVK()))
}
