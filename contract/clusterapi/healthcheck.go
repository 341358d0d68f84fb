package clusterapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func readHealthCheck(m *clusterv1.MachineHealthCheck, into *contract.HealthCheckState) (err error) {
	before := *into
	*into = contract.HealthCheckState{}
	into.Metadata.From(m)
	spec, status := &m.Spec, &m.Status
	into.ClusterName, into.Selector = spec.ClusterName, selector(&spec.Selector)
	nodes, machines := spec.Checks.UnhealthyNodeConditions, spec.Checks.UnhealthyMachineConditions
	into.NodeRules = contract.Converted(nodes, before.NodeRules, func(c clusterv1.UnhealthyNodeCondition) contract.HealthRule {
		return rule(string(c.Type), metav1.ConditionStatus(c.Status), c.TimeoutSeconds)
	})
	into.MachineRules = contract.Converted(machines, before.MachineRules, func(c clusterv1.UnhealthyMachineCondition) contract.HealthRule {
		return rule(c.Type, c.Status, c.TimeoutSeconds)
	})
	if err := checkRules(into.NodeRules, "unhealthyNodeConditions"); err != nil {
		return err
	}
	if err := checkRules(into.MachineRules, "unhealthyMachineConditions"); err != nil {
		return err
	}
	into.NodeStartup = seconds(spec.Checks.NodeStartupTimeoutSeconds)
	trigger, template := &spec.Remediation.TriggerIf, &spec.Remediation.TemplateRef
	into.MaxUnhealthy, into.UnhealthyRange = contract.SomeAt(trigger.UnhealthyLessThanOrEqualTo), trigger.UnhealthyInRange
	group, version, found := strings.Cut(template.APIVersion, "/")
	if !found {
		group, version = "", template.APIVersion
	}
	into.Template, into.TemplateVersion = contract.Ref{Group: group, Kind: template.Kind, Name: template.Name}, version
	into.ExpectedMachines, into.CurrentHealthy = contract.SomeAt(status.ExpectedMachines), contract.SomeAt(status.CurrentHealthy)
	into.RemediationsAllowed, into.Targets = contract.SomeAt(status.RemediationsAllowed), status.Targets
	into.ObservedGeneration = status.ObservedGeneration
	into.Conditions, err = conditions(status.Conditions, before.Conditions)
	return err
}

// rule returns a rule. A missing timeout becomes negative, which checkRules rejects.
func rule(kind string, status metav1.ConditionStatus, timeout *int32) contract.HealthRule {
	return contract.HealthRule{Type: kind, Status: status, Timeout: seconds(timeout).Or(-1)}
}

// checkRules requires all members: a rule without a timeout would apply at once.
func checkRules(rules []contract.HealthRule, list string) error {
	for i, r := range rules {
		switch {
		case r.Type == "":
			return missing("spec.checks", list, i, "type")
		case r.Status == "":
			return missing("spec.checks", list, i, "status")
		case r.Timeout < 0:
			got := "nothing"
			if r.Timeout%time.Second == 0 {
				got = r.Timeout.String()
			}
			return &contract.FieldError{Path: contract.NewPath("spec", "checks", list, strconv.Itoa(i), "timeoutSeconds"),
				Want: "32-bit integer of seconds", Got: got}
		}
	}
	return nil
}

func writeHealthCheck(m *clusterv1.MachineHealthCheck, u contract.HealthCheckUpdate) error {
	u.MetadataUpdate.ApplyTo(m)
	u.ExpectedMachines.ApplyToPointer(&m.Status.ExpectedMachines)
	u.CurrentHealthy.ApplyToPointer(&m.Status.CurrentHealthy)
	u.RemediationsAllowed.ApplyToPointer(&m.Status.RemediationsAllowed)
	if targets, set := u.Targets.Value(); set || u.Targets.Clears() {
		m.Status.Targets = append([]string(nil), targets...)
	}
	u.ObservedGeneration.ApplyTo(&m.Status.ObservedGeneration)
	setConditions(&m.Status.Conditions, u.Conditions, u.RemoveConditions)
	return nil
}
