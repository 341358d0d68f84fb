package describe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(noon.Add(-5 * time.Minute))}
}

func TestAMachineWaitsForTheCauseAndNotForItsConsequences(t *testing.T) {
	t.Parallel()
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	ready := []metav1.Condition{
		condition(contract.ConditionBootstrapConfigReady, yes, contract.ReasonReady, ""),
		condition(contract.ConditionInfrastructureReady, yes, contract.ReasonReady, ""),
		condition(contract.ConditionNodeReady, yes, machine.ReasonNodeReady, ""),
		condition(machine.ConditionNodeHealthy, yes, machine.ReasonNodeHealthy, ""),
		condition(contract.ConditionAvailable, yes, contract.ReasonAvailable, ""),
	}
	with := func(changed ...metav1.Condition) []metav1.Condition {
		all := append([]metav1.Condition{}, ready...)
		for _, c := range changed {
			kept := all[:0]
			for _, old := range all {
				if old.Type != c.Type {
					kept = append(kept, old)
				}
			}
			kept = append(kept, c)
			all = kept
		}
		return all
	}
	for name, tc := range map[string]struct {
		m    contract.MachineState
		want string
	}{
		"as it should be":  {contract.MachineState{Phase: "Running", Conditions: ready}, ""},
		"nothing is known": {contract.MachineState{}, "Reconciler"},
		"infrastructure before the Node": {contract.MachineState{Phase: "Provisioning", Conditions: with(
			condition(contract.ConditionInfrastructureReady, no, "Booting", "the instance boots"),
			condition(contract.ConditionNodeReady, unknown, contract.ReasonInspectionFailed, ""))}, "InfrastructureReady Booting"},
		"a sick Node that is marked": {contract.MachineState{Phase: "Running", Conditions: with(
			condition(contract.ConditionNodeReady, no, machine.ReasonNodeNotReady, ""),
			condition(contract.ConditionHealthCheckSucceeded, no, "UnhealthyNode", ""),
			condition(contract.ConditionOwnerRemediated, no, contract.ReasonWaitingForRemediation, ""))},
			"NodeReady NodeNotReady, HealthCheckSucceeded UnhealthyNode, OwnerRemediated WaitingForRemediation"},
		"not available yet": {contract.MachineState{Phase: "Running", Conditions: with(
			condition(contract.ConditionAvailable, no, machine.ReasonWaitingForMinReadySeconds, ""))}, "Available WaitingForMinReadySeconds"},
		"an old template": {contract.MachineState{Phase: "Running", Conditions: with(
			condition(contract.ConditionUpToDate, no, contract.ReasonNotUpToDate, "Version v1.36.1, v1.36.3 required"))},
			"UpToDate NotUpToDate"},
		"paused hides what is old": {contract.MachineState{Phase: "Running", Conditions: with(
			condition(contract.ConditionPaused, yes, contract.ReasonPaused, ""),
			condition(contract.ConditionNodeReady, no, machine.ReasonNodeNotReady, ""))}, "Paused Paused"},
		"a failure": {contract.MachineState{Phase: "Failed", FailureReason: "Invalid", Conditions: ready}, "Failure Invalid"},
		"deletion hides the rest": {contract.MachineState{Phase: "Deleting", Metadata: contract.Metadata{Deleting: noon}, Conditions: with(
			condition(contract.ConditionDeleting, yes, contract.ReasonDrainingNode, ""),
			condition(contract.ConditionNodeReady, no, machine.ReasonNodeNotReady, ""))}, "Deleting DrainingNode"},
		"deletion that is not begun": {contract.MachineState{Phase: "Running", Metadata: contract.Metadata{Deleting: noon},
			Conditions: ready}, "Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, w := range Waits(&tc.m, noon) {
				require.NotEmpty(t, w.Do)
				got = append(got, strings.TrimSpace(w.For+" "+w.Reason))
			}
			require.Equal(t, tc.want, strings.Join(got, ", "))
		})
	}
}

func TestAStageOfADeletionCountsFromItsOwnStart(t *testing.T) {
	t.Parallel()
	drained := noon.Add(-time.Minute)
	m := contract.MachineState{Metadata: contract.Metadata{Deleting: noon.Add(-time.Hour)}, DrainStarted: drained, Phase: "Deleting",
		Conditions: []metav1.Condition{condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDrainingNode, "")}}
	require.Equal(t, drained, *Waits(&m, noon)[0].Since)
	m.DrainStarted = time.Time{}
	require.Equal(t, noon.Add(-5*time.Minute), Waits(&m, noon)[0].Since.UTC())
}

// settled are reasons of a Machine's conditions that a Machine never waits with: those of conditions that are as they should be, and
// reasons that explain something else than a condition of the Machine.
func settled() map[string]bool {
	all := map[string]bool{}
	for _, reason := range []string{"NodeReady", "NodeHealthy", "NotUpdating", "HealthCheckSucceeded", "RemediationAllowed",
		"TooManyUnhealthy", "LimitUnreadable", "Outage", "RemediationInFlight", "NoOwner", "Skipped",
		"ControlPlaneNotInitialized",
		"InfrastructureNotReady", "NodeUnread", "Deleting", "Starting", "Suspect", "SelectorUnreadable",
		"MachineMarkedUnhealthy", "RemediationRestricted"} {
		all[reason] = true
	}
	return all
}

func TestThereIsAdviceForEachReasonThatAMachineCanHave(t *testing.T) {
	t.Parallel()
	known := settled()
	count := 0
	for _, dir := range []string{"machine", "machine/healthcheck", "machine/remediation"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(dir), "*.go"))
		require.NoError(t, err)
		for _, path := range files {
			for name, reason := range reasonsOf(t, path) {
				count++
				require.True(t, Advice()[reason] != "" || known[reason], "%s: no advice for %s = %q", path, name, reason)
			}
		}
	}
	require.Greater(t, count, 40)
}

func reasonsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	found := map[string]string{}
	if strings.HasSuffix(path, "_test.go") {
		return found
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, name := range spec.Names {
			if value, is := spec.Values[i].(*ast.BasicLit); is && strings.HasPrefix(name.Name, "Reason") {
				text, err := strconv.Unquote(value.Value)
				require.NoError(t, err)
				found[name.Name] = text
			}
		}
		return true
	})
	return found
}
