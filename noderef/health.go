package noderef

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Health is the state of a Node by its conditions.
type Health uint8

const (
	// HealthUnknown is the zero value: at least one required condition is unknown.
	HealthUnknown Health = iota
	// Healthy means that every condition has the healthy status.
	Healthy
	// Unhealthy means that at least one condition has the opposite status.
	Unhealthy
)

// String returns the name of the constant.
func (h Health) String() string {
	names := [...]string{"HealthUnknown", "Healthy", "Unhealthy"}
	if int(h) < len(names) {
		return names[h]
	}
	return "Health(" + strconv.Itoa(int(h)) + ")"
}

// ConditionRule is the healthy status of one condition type.
type ConditionRule struct {
	Type corev1.NodeConditionType
	// Healthy is the healthy status: True for Ready, False for most others. The opposite is Unhealthy.
	Healthy corev1.ConditionStatus
	// Unknown is the Health for the status Unknown, and Missing the Health for a Node without the condition.
	Unknown, Missing Health
}

// HealthRules define a healthy Node. The zero HealthRules have no requirements. They are safe for concurrent use while
// they are not changed.
type HealthRules struct {
	Conditions []ConditionRule
	// Starting are the taints, by key and effect, of a Node that is not initialized. They do not make it unhealthy.
	Starting []corev1.Taint
}

// ClusterAPIHealth returns Cluster API's rules for a Machine's NodeHealthy condition: Ready is True, and there is no
// pressure on memory, disk or process IDs. An unknown condition is not healthy.
func ClusterAPIHealth() HealthRules {
	return HealthRules{Conditions: []ConditionRule{
		{Type: corev1.NodeReady, Healthy: corev1.ConditionTrue},
		{Type: corev1.NodeMemoryPressure, Healthy: corev1.ConditionFalse},
		{Type: corev1.NodeDiskPressure, Healthy: corev1.ConditionFalse},
		{Type: corev1.NodePIDPressure, Healthy: corev1.ConditionFalse},
	}}
}

// Finding is one condition that is not healthy.
type Finding struct {
	Type corev1.NodeConditionType
	// Health is Unhealthy or HealthUnknown.
	Health Health
	// Status is empty when the Node does not have the condition. Reason and Message are those of the Node's condition.
	Status          corev1.ConditionStatus
	Reason, Message string
}

// Report is the result of [HealthRules.Judge].
type Report struct {
	Health Health
	// Starting means that the Node still has a taint of HealthRules.Starting.
	Starting bool
	// Findings are in the order of the rules. A healthy Node has none.
	Findings []Finding
}

// Judge returns the health of a Node. A nil Node, and one without any condition, is HealthUnknown. It allocates nothing
// for a healthy Node.
func (h HealthRules) Judge(node *corev1.Node) Report {
	if node == nil {
		return Report{}
	}
	report := Report{Starting: hasAny(node.Spec.Taints, h.Starting)}
	if len(node.Status.Conditions) > 0 {
		report.Health = Healthy
	}
	for _, rule := range h.Conditions {
		f := rule.judge(node.Status.Conditions)
		if f.Health == Healthy {
			continue
		}
		report.Findings = append(report.Findings, f)
		if f.Health == Unhealthy || report.Health == Healthy {
			report.Health = f.Health
		}
	}
	return report
}

func (r ConditionRule) judge(conditions []corev1.NodeCondition) Finding {
	for i := range conditions {
		c := &conditions[i]
		if c.Type != r.Type {
			continue
		}
		f := Finding{Type: r.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
		switch c.Status {
		case r.Healthy:
			f.Health = Healthy
		case corev1.ConditionTrue, corev1.ConditionFalse:
			f.Health = Unhealthy
		case corev1.ConditionUnknown:
			f.Health = r.Unknown
		default: // not a status of Kubernetes
		}
		return f
	}
	return Finding{Type: r.Type, Health: r.Missing}
}

func hasAny(have, sought []corev1.Taint) bool {
	for i := range sought {
		for j := range have {
			if have[j].MatchTaint(&sought[i]) {
				return true
			}
		}
	}
	return false
}

// Ready reports whether the Node's Ready condition is True. A nil Node, and one without that condition, is not ready.
func Ready(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	return conditionStatus(node.Status.Conditions, corev1.NodeReady) == corev1.ConditionTrue
}
