package healthcheck_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/noderef"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func node(conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}, Status: corev1.NodeStatus{Conditions: conditions}}
}

func nodeCondition(kind string, status corev1.ConditionStatus, since time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status, Reason: "R", LastTransitionTime: ago(since)}
}

// facts are those of a healthy Machine an hour after its creation.
func facts() healthcheck.Facts {
	return healthcheck.Facts{
		Machine: &contract.MachineState{
			Metadata: contract.Metadata{Created: now.Add(-time.Hour), Labels: map[string]string{}, Annotations: map[string]string{}},
			Node:     contract.NodeRef{Name: "n", UID: "n-uid"},
		},
		Node: node(nodeCondition("Ready", corev1.ConditionTrue, time.Hour)), NodeState: healthcheck.NodePresent,
		Cluster: &contract.ClusterState{ControlPlaneInitialized: true, InfrastructureProvisioned: true},
		Checks: &healthcheck.Checks{
			Node: []contract.HealthRule{{Type: "Ready", Status: metav1.ConditionFalse, Timeout: 5 * time.Minute},
				{Type: "Ready", Status: metav1.ConditionUnknown, Timeout: 5 * time.Minute},
				{Type: "KernelDeadlock", Status: metav1.ConditionTrue}},
			Machine:     []contract.HealthRule{{Type: "InfrastructureReady", Status: metav1.ConditionFalse, Timeout: time.Minute}},
			NodeStartup: 10 * time.Minute,
		},
		Now: now,
	}
}

func setCondition(f *healthcheck.Facts, kind string, status metav1.ConditionStatus, since time.Duration) {
	f.Machine.Conditions = append(f.Machine.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "R",
		LastTransitionTime: ago(since)})
}

func withoutNode(f *healthcheck.Facts, age time.Duration) {
	f.Machine.Node, f.Node, f.NodeState = contract.NodeRef{}, nil, healthcheck.NodeNone
	f.Machine.Created = now.Add(-age)
}

// unhealthyMachine is the verdict on a Machine whose own condition is wrong, and unhealthyNode that on one of its Node.
const unhealthyMachine = "Unhealthy (UnhealthyMachine): Health check failed:/  * Condition InfrastructureReady on Machine is reporting " +
	"status False with reason R for more than 1m0s"

func unhealthyNode(kind, status, timeout string) string {
	return "Unhealthy (UnhealthyNode): Health check failed:/  * Condition " + kind + " on Node is reporting status " + status +
		" with reason R for more than " + timeout
}

// line returns a verdict as one line.
func line(v healthcheck.Verdict) string {
	text := fmt.Sprintf("%s (%s)", cmp.Or(v.Class, "Pending"), v.Reason)
	if v.Message != "" {
		text += ": " + strings.ReplaceAll(v.Message, "\n", "/")
	}
	return text
}

func TestAMachineIsJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*healthcheck.Facts)
		// want is the verdict as one line, with its lines joined by slashes.
		want string
		next time.Duration
	}{
		"nothing is wrong": {func(*healthcheck.Facts) {}, "Healthy (HealthCheckSucceeded)", 0},
		"the Node is not ready for too long": {func(f *healthcheck.Facts) {
			f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown,
				301*time.Second))
		},
			unhealthyNode("Ready", "Unknown", "5m0s"), 0},
		"the Node is not ready for exactly the timeout": {func(f *healthcheck.Facts) {
			f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown,
				5*time.Minute))
		},
			"Pending (Suspect)", time.Second},
		"the Node is not ready for a while": {func(f *healthcheck.Facts) {
			f.Node = node(nodeCondition("Ready", corev1.ConditionFalse, time.Minute))
		}, "Pending (Suspect)", 4*time.Minute + time.Second},
		"a condition of node-problem-detector without a timeout": {func(f *healthcheck.Facts) {
			f.Node = node(nodeCondition("KernelDeadlock",
				corev1.ConditionTrue, time.Second))
		},
			unhealthyNode("KernelDeadlock", "True", "0s"), 0},
		"a clock that is ahead": {func(f *healthcheck.Facts) { f.Node = node(nodeCondition("Ready", corev1.ConditionFalse, -time.Hour)) },
			"Pending (Suspect)", 5*time.Minute +
				time.Second},
		"a condition that does not say since when": {func(f *healthcheck.Facts) {
			f.Node = node(corev1.NodeCondition{Type: "Ready", Status: "False"})
		}, "Pending (Suspect)", 0},
		"a condition of the Machine": {func(f *healthcheck.Facts) { setCondition(f, "InfrastructureReady", "False", 2*time.Minute) },
			unhealthyMachine, 0},
		"a condition of both": {func(f *healthcheck.Facts) {
			setCondition(f, "InfrastructureReady", "False", 2*time.Minute)
			f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown, time.Hour))
		}, unhealthyMachine +
			"/  * Condition Ready on Node is reporting status Unknown with reason R for more than 5m0s", 0},
		"the Node is gone": {func(f *healthcheck.Facts) { f.Node, f.NodeState = nil, healthcheck.NodeGone },
			"Unhealthy (NodeDeleted): Health check failed:/  * Node n has been deleted", 0},
		"the Node cannot be read": {func(f *healthcheck.Facts) { f.Node, f.NodeState = nil, healthcheck.NodeUnread },
			"Pending (NodeUnread)", 0},
		"the Node cannot be read, and the Machine is unhealthy": {func(f *healthcheck.Facts) {
			f.Node, f.NodeState = nil, healthcheck.NodeUnread
			setCondition(f, "InfrastructureReady", "False", 2*time.Minute)
		}, unhealthyMachine, 0},
		"no Node yet": {func(f *healthcheck.Facts) { withoutNode(f, 4*time.Minute) }, "Pending (Starting)",
			6*time.Minute + time.Second},
		"no Node in time": {func(f *healthcheck.Facts) { withoutNode(f, 11*time.Minute) },
			"Unhealthy (NodeStartupTimeout): Health check failed:/  * Node failed to report startup in 10m0s", 0},
		"no Node, and no limit": {func(f *healthcheck.Facts) { withoutNode(f, time.Hour); f.Checks.NodeStartup = 0 },
			"Pending (Starting)", 0},
		"no Node in time, but the infrastructure is younger": {func(f *healthcheck.Facts) {
			withoutNode(f, time.Hour)
			setCondition(f, "InfrastructureReady", "True", time.Minute)
		}, "Pending (Starting)", 9*time.Minute + time.Second},
		"no Node in time, but the control plane is younger": {func(f *healthcheck.Facts) {
			withoutNode(f, time.Hour)
			f.Cluster = &contract.ClusterState{ControlPlaneInitialized: true, ControlPlaneInitializedAt: ago(time.Minute).Time,
				InfrastructureProvisioned: true}
		}, "Pending (Starting)", 9*time.Minute + time.Second},
		"no Node in time, and a time of the infrastructure in the future": {func(f *healthcheck.Facts) {
			withoutNode(f, time.Hour)
			setCondition(f, "InfrastructureReady", "True", -time.Hour)
		}, "Unhealthy (NodeStartupTimeout): Health check failed:/  * Node failed to report startup in 10m0s", 0},
		"a limit to join": {func(f *healthcheck.Facts) {
			withoutNode(f, time.Hour)
			f.Checks.Join = 2 * time.Minute
			setCondition(f, "InfrastructureReady", "True", 3*time.Minute)
		}, "Unhealthy (NodeStartupTimeout): Health check failed:/  * Node failed to report startup in 2m0s", 0},
		"a creation that failed": {func(f *healthcheck.Facts) {
			withoutNode(f, time.Minute)
			f.Machine.FailureReason, f.Machine.FailureMessage = "Quota", "none left"
		},
			"Unhealthy (UnhealthyMachine): Health check failed:/  * Machine failed before it had a Node: Quota none left", 0},
		"a failure of a Machine with a Node": {func(f *healthcheck.Facts) { f.Machine.FailureReason = "Quota" },
			"Healthy (HealthCheckSucceeded)", 0},
		"a Node that has registered and not reported": {func(f *healthcheck.Facts) { f.Node = node() },
			"Pending (Starting)", 0},
		"a Machine in deletion": {func(f *healthcheck.Facts) { f.Machine.Deleting = now },
			"Pending (Deleting)", 0},
		"a request to remediate": {func(f *healthcheck.Facts) { f.Machine.Annotations[contract.RemediateAnnotation] = "" },
			"Unhealthy (HasRemediateAnnotation): Health check failed: marked for remediation via cluster.x-k8s.io/remediate-machine annotation", 0},
		"a request to skip and to remediate": {func(f *healthcheck.Facts) {
			f.Machine.Annotations[contract.RemediateAnnotation], f.Machine.Annotations[healthcheck.SkipAnnotation] = "", ""
		}, "Pending (Skipped)", 0},
		"a paused Machine": {func(f *healthcheck.Facts) { f.Machine.Annotations[contract.PausedAnnotation] = "" },
			"Pending (Skipped)", 0},
		"a Cluster without a control plane": {func(f *healthcheck.Facts) {
			f.Node, f.NodeState = nil, healthcheck.NodeGone
			f.Cluster = &contract.ClusterState{InfrastructureProvisioned: true}
		}, "Pending (ControlPlaneNotInitialized)", 0},
		"the first Machine of a control plane": {func(f *healthcheck.Facts) {
			withoutNode(f, time.Hour)
			f.Machine.Labels[contract.ControlPlaneLabel] = ""
			f.Cluster = &contract.ClusterState{InfrastructureProvisioned: true}
		}, "Unhealthy (NodeStartupTimeout): Health check failed:/  * Node failed to report startup in 10m0s", 0},
		"a Cluster without infrastructure": {func(f *healthcheck.Facts) {
			f.Cluster = &contract.ClusterState{ControlPlaneInitialized: true}
		}, "Pending (InfrastructureNotReady)", 0},
		"an API server does not answer, and a person requests to remediate": {func(f *healthcheck.Facts) {
			f.Reach.Silent, f.Machine.Annotations[contract.RemediateAnnotation] = true, ""
		}, "Pending (ClusterUnreachable)", 0},
		"no Clusters": {func(f *healthcheck.Facts) { withoutNode(f, time.Hour); f.Cluster = nil },
			"Unhealthy (NodeStartupTimeout): Health check failed:/  * Node failed to report startup in 10m0s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			tc.change(&f)
			got := healthcheck.Evaluate(f)
			require.Equal(t, tc.want, line(got))
			require.Equal(t, tc.next, got.NextCheck)
			require.Empty(t, gocmp.Diff(got, healthcheck.Evaluate(f)), "equal facts give equal verdicts")
		})
	}
}

func TestANodeOfTheRecordedNameMayBeAnotherOne(t *testing.T) {
	machine := contract.MachineState{Node: contract.NodeRef{Name: "n", UID: "n-uid"}}
	for name, tc := range map[string]struct {
		machineID, recorded, nodeID, uid string
		want                             healthcheck.NodeState
	}{
		"the same":                                   {"p://1", "n-uid", "p://1", "n-uid", healthcheck.NodePresent},
		"it has registered again":                    {"p://1", "n-uid", "p://1", "other", healthcheck.NodePresent},
		"same UID, other ID":                         {"p://1", "n-uid", "p:///zone/1", "n-uid", healthcheck.NodePresent},
		"another instance has its name":              {"p://1", "n-uid", "p://2", "other", healthcheck.NodeGone},
		"other ID, and no UID is recorded":           {"p://1", "", "p://2", "other", healthcheck.NodeUnread},
		"without a provider ID, under another UID":   {"p://1", "n-uid", "", "other", healthcheck.NodeUnread},
		"the Machine knows no provider ID":           {"", "n-uid", "p://1", "other", healthcheck.NodeUnread},
		"recorded by a controller that keeps no UID": {"", "", "p://1", "other", healthcheck.NodePresent},
		"the UID alone":                              {"", "n-uid", "", "n-uid", healthcheck.NodePresent},
	} {
		t.Run(name, func(t *testing.T) {
			m, n := machine, node()
			m.ProviderID, m.Node.UID = tc.machineID, "n-uid"
			if tc.recorded == "" {
				m.Node.UID = ""
			}
			n.Spec.ProviderID, n.UID = tc.nodeID, "n-uid"
			if tc.uid != "n-uid" {
				n.UID = "other"
			}
			_, got := healthcheck.Find(&m, noderef.BuildIndex([]*corev1.Node{n}), noderef.Rules{})
			require.Equal(t, tc.want, got)
		})
	}
	_, got := healthcheck.Find(&machine, nil, noderef.Rules{})
	require.Equal(t, healthcheck.NodeUnread, got, "what cannot be read is not missing")
	_, got = healthcheck.Find(&machine, noderef.BuildIndex(nil), noderef.Rules{})
	require.Equal(t, healthcheck.NodeGone, got)
	_, got = healthcheck.Find(&contract.MachineState{}, noderef.BuildIndex(nil), noderef.Rules{})
	require.Equal(t, healthcheck.NodeNone, got)
}

func TestNoFactsAreNeverUnhealthy(t *testing.T) {
	got := healthcheck.Evaluate(healthcheck.Facts{Machine: &contract.MachineState{}, Checks: &healthcheck.Checks{}})
	require.Equal(t, healthcheck.Pending, got.Class)
}

func TestAHealthyMachineIsJudgedWithoutAnAllocation(t *testing.T) {
	f := facts()
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = healthcheck.Evaluate(f) }))
}

func BenchmarkEvaluate(b *testing.B) {
	for name, f := range map[string]healthcheck.Facts{"healthy": facts(), "unhealthy": func() healthcheck.Facts {
		f := facts()
		f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown, time.Hour))
		return f
	}()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = healthcheck.Evaluate(f)
			}
		})
	}
}

// Nodes cannot report while their API server does not answer: at its end each of them has not reported for long.
func TestAfterAnOutageLimitsBeginAnew(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown, time.Hour))
	f.Reach.AnsweredAt = now.Add(-2 * time.Minute)
	v := healthcheck.Evaluate(f)
	require.Equal(t, healthcheck.ReasonSuspect, v.Reason)
	require.Equal(t, 3*time.Minute+time.Second, v.NextCheck)
	f.Reach.AnsweredAt = now.Add(-6 * time.Minute)
	require.Equal(t, healthcheck.Unhealthy, healthcheck.Evaluate(f).Class)

	f = facts()
	withoutNode(&f, time.Hour)
	f.Reach.AnsweredAt = now.Add(-9 * time.Minute)
	require.Equal(t, healthcheck.ReasonStarting, healthcheck.Evaluate(f).Reason)
	f.Reach.AnsweredAt = now.Add(-11 * time.Minute)
	require.Equal(t, healthcheck.ReasonNodeStartupTimeout, healthcheck.Evaluate(f).Reason)
	f.Reach.AnsweredAt = now.Add(time.Minute) // until then caches are behind
	v = healthcheck.Evaluate(f)
	require.Equal(t, healthcheck.ReasonStarting, v.Reason)
	require.Positive(t, v.NextCheck)

	f.Checks.Join = 3 * time.Minute
	setCondition(&f, contract.ConditionInfrastructureReady, metav1.ConditionTrue, 50*time.Minute)
	f.Reach.AnsweredAt = now.Add(-2 * time.Minute)
	require.Equal(t, healthcheck.ReasonStarting, healthcheck.Evaluate(f).Reason, "the limit to join begins anew too")
	f.Reach.AnsweredAt = now.Add(-4 * time.Minute)
	require.Equal(t, healthcheck.ReasonNodeStartupTimeout, healthcheck.Evaluate(f).Reason)

	f = facts()
	f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown, time.Hour))
	f.Reach.AnsweredAt = now.Add(time.Minute)
	require.Equal(t, healthcheck.ReasonSuspect, healthcheck.Evaluate(f).Reason)
}

// What an outage has interrupted has its limit again at its end.
func TestVerdictLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*healthcheck.Facts)
		want   time.Duration
	}{
		"nothing": {func(*healthcheck.Facts) {}, 0},
		"a suspect": {func(f *healthcheck.Facts) {
			f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown, time.Minute))
		}, 5 * time.Minute},
		"the longest of several": {func(f *healthcheck.Facts) {
			f.Node = node(nodeCondition("Ready", corev1.ConditionUnknown, time.Hour))
			setCondition(f, "InfrastructureReady", metav1.ConditionFalse, time.Hour)
		}, 5 * time.Minute},
		"no time is allowed": {func(f *healthcheck.Facts) {
			f.Node = node(nodeCondition("KernelDeadlock", corev1.ConditionTrue, time.Hour))
		}, 0},
		"no Node yet": {func(f *healthcheck.Facts) { withoutNode(f, time.Hour) }, 10 * time.Minute},
		"a Node that is gone": {func(f *healthcheck.Facts) {
			f.Node, f.NodeState = nil, healthcheck.NodeGone
		}, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts()
			tc.change(&f)
			require.Equal(t, tc.want, healthcheck.Evaluate(f).Limit)
		})
	}
}

// Its time would be unknown for ever, and so it would be at once with each later failure of another Machine.
func TestStartOfAMissingNode(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Node, f.NodeState = nil, healthcheck.NodeGone
	setCondition(&f, contract.ConditionHealthCheckSucceeded, metav1.ConditionTrue, 2*time.Hour)
	require.Zero(t, healthcheck.Evaluate(f).Since)
	f.Machine.Conditions = nil
	setCondition(&f, contract.ConditionHealthCheckSucceeded, metav1.ConditionFalse, time.Hour)
	gone := healthcheck.Evaluate(f)
	require.Equal(t, now.Add(-time.Hour), gone.Since)

	p := planned(t, "uu", "100%")
	p.Machines[0].Verdict = gone
	p.Machines[0].Marked = true // and its owner does not replace it
	p.Machines[1].Verdict.Since = now.Add(-10 * time.Minute)
	require.Equal(t, "Wait Mark", acts(healthcheck.Plan(p)))
}

// It is not of unknown time: that would be at once with the failure of any other Machine.
func TestAMachineWhoseCreationFailedIsUnhealthySinceItBegan(t *testing.T) {
	for name, age := range map[string]time.Duration{"before its limit": 5 * time.Minute, "after it": time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			withoutNode(&f, age)
			f.Machine.FailureReason = "CreateError"
			v := healthcheck.Evaluate(f)
			require.Equal(t, healthcheck.Unhealthy, v.Class)
			require.Equal(t, f.Machine.Created, v.Since)
		})
	}
}
