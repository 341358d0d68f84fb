package healthcheck_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// A verdict says why, and when it changes without an event.
func ExampleEvaluate() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	machine := &contract.MachineState{Node: contract.NodeRef{Name: "worker-1"}}
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
		Type: "KernelDeadlock", Status: corev1.ConditionTrue, Reason: "DockerHung", LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Minute)),
	}}}}
	checks := healthcheck.Checks{Node: []contract.HealthRule{
		{Type: "KernelDeadlock", Status: metav1.ConditionTrue, Timeout: 10 * time.Minute},
	}}
	for _, at := range []time.Time{now, now.Add(7 * time.Minute)} {
		v := healthcheck.Evaluate(healthcheck.Facts{Machine: machine, Node: node, NodeState: healthcheck.NodePresent, Checks: &checks, Now: at})
		fmt.Println(strings.TrimSpace(fmt.Sprint(v.Class, " ", v.Reason, " ", v.Message)))
		fmt.Println("next check:", v.NextCheck)
	}
	// Output:
	// Suspect
	// next check: 6m1s
	// Unhealthy UnhealthyNode Health check failed:
	//   * Condition KernelDeadlock on Node is reporting status True with reason DockerHung for more than 10m0s
	// next check: 0s
}

// A zone fails: its Machines are not replaced, and one elsewhere is.
func ExamplePlan() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var machines []healthcheck.Machine
	for name, since := range map[string]time.Duration{"a-1": 10 * time.Minute, "a-2": 11 * time.Minute, "b-1": 0, "b-2": 3 * time.Hour,
		"b-3": 0} {
		m := healthcheck.Machine{Name: name, Group: "workers", Domain: "zone-" + name[:1],
			Verdict: healthcheck.Verdict{Class: healthcheck.Healthy}}
		if since > 0 {
			m.Verdict = healthcheck.Verdict{Class: healthcheck.Unhealthy, Since: now.Add(-since)}
		}
		machines = append(machines, m)
	}
	plan := healthcheck.Plan(healthcheck.PlanFacts{
		Machines: machines, MaxUnhealthy: contract.Some(intstr.FromString("60%")), Known: true, Now: now,
	})
	for _, o := range plan.Outcomes {
		fmt.Println(strings.TrimSpace(fmt.Sprint(o.Name, " ", o.Action, " ", o.Reason)))
	}
	fmt.Println(plan.Message)
	// Output:
	// a-1 Hold Outage
	// a-2 Hold Outage
	// b-1
	// b-2 Mark
	// b-3
	// 2 of 2 Machines of failure domain zone-a became unhealthy at once, which new Machines would not end: add the annotation cluster.x-k8s.io/remediate-machine to remediate it nevertheless
}
