package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Kinds of events that are not about objects.
const (
	kindAct     = "Act"
	kindSummary = "Summary"
)

// Changes of an object.
const (
	happenedCreated  = "Created"
	happenedChanged  = "Changed"
	happenedBound    = "Bound"
	happenedReady    = "Ready"
	happenedLeaving  = "Leaving"
	happenedGone     = "Gone"
	happenedUnready  = "NotReady"
	unknownReadiness = "Unknown"
)

// event is one change, as -o json prints it.
type event struct {
	// Seconds since the start of the program.
	Seconds float64 `json:"seconds"`
	// Kind is the kind of an object, or Act for a step of the program.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Event     string `json:"event,omitempty"`
	// Message is for users.
	Message string `json:"message,omitempty"`

	// Machine, Deployment, Pod and Budget are set for objects of those kinds.
	Machine    *machineRow    `json:"machine,omitempty"`
	Deployment *deploymentRow `json:"deployment,omitempty"`
	Pod        *podRow        `json:"pod,omitempty"`
	Budget     *budgetRow     `json:"budget,omitempty"`
}

// machineRow has the columns that kubectl prints for a Machine.
type machineRow struct {
	Phase      string `json:"phase"`
	Node       string `json:"node"`
	ProviderID string `json:"providerID"`
	Version    string `json:"version,omitempty"`
	Ready      string `json:"ready"`
	Message    string `json:"message"`
}

type podRow struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
	// ReadyInAll counts the ready pods of the workload that are not being deleted.
	ReadyInAll int `json:"readyInAll"`
}

type budgetRow struct {
	Demands int32 `json:"demands"`
	Healthy int32 `json:"healthy"`
	Allows  int32 `json:"allows"`
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// rowOf returns the columns of a Machine.
func rowOf(state *contract.MachineState) machineRow {
	row := machineRow{
		Phase: state.Phase, Node: state.Node.Name, ProviderID: state.ProviderID, Version: state.Version, Ready: unknownReadiness,
	}
	if ready := conditionOf(state, "Ready"); ready != nil {
		row.Ready, row.Message = string(ready.Status), ready.Message
	}
	if deleting := conditionOf(state, "Deleting"); deleting != nil && deleting.Status == metav1.ConditionTrue && deleting.Message != "" {
		row.Message = deleting.Message
	}
	return row
}

func conditionOf(state *contract.MachineState, kind string) *metav1.Condition {
	for i := range state.Conditions {
		if state.Conditions[i].Type == kind {
			return &state.Conditions[i]
		}
	}
	return nil
}

func budgetRowOf(b *policyv1.PodDisruptionBudget) budgetRow {
	return budgetRow{Demands: b.Status.DesiredHealthy, Healthy: b.Status.CurrentHealthy, Allows: b.Status.DisruptionsAllowed}
}

// serving reports whether a pod counts for a budget: it is ready and not being deleted.
func serving(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
