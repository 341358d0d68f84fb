package contract_test

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// Server is an embedder's CRD type, as kubebuilder makes it.
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              ServerSpec   `json:"spec,omitzero"`
	Status            ServerStatus `json:"status,omitzero"`
}

type ServerSpec struct {
	InstanceID string  `json:"instanceID,omitempty"`
	UserData   *string `json:"userData,omitempty"`
}

type ServerStatus struct {
	Stage        string             `json:"stage,omitempty"`
	Node         string             `json:"node,omitempty"`
	NodeUID      types.UID          `json:"nodeUID,omitempty"`
	Created      *bool              `json:"created,omitempty"`
	DrainStarted metav1.Time        `json:"drainStarted,omitzero"`
	Observed     int64              `json:"observedGeneration,omitempty"`
	Conditions   []metav1.Condition `json:"conditions,omitempty"`
}

func (s *Server) DeepCopyObject() runtime.Object {
	c := *s
	c.ObjectMeta = *s.ObjectMeta.DeepCopy()
	if s.Spec.UserData != nil {
		c.Spec.UserData = new(*s.Spec.UserData)
	}
	if s.Status.Created != nil {
		c.Status.Created = new(*s.Status.Created)
	}
	c.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &c
}

// readServer says what a Server is to a reconciler of Machines. What it leaves out is absent.
func readServer(s *Server, into *contract.MachineState) error {
	into.Metadata.From(s)
	into.ProviderID, into.DataSecretName = s.Spec.InstanceID, contract.SomeAt(s.Spec.UserData)
	into.Phase, into.Node = s.Status.Stage, contract.NodeRef{Name: s.Status.Node, UID: s.Status.NodeUID}
	into.InfrastructureReady, into.ObservedGeneration = contract.SomeAt(s.Status.Created), s.Status.Observed
	into.DrainStarted = s.Status.DrainStarted.UTC()
	into.Conditions = s.Status.Conditions
	return nil
}

// writeServer is the way back.
func writeServer(s *Server, u contract.MachineUpdate) error {
	u.MetadataUpdate.ApplyTo(s)
	u.ProviderID.ApplyTo(&s.Spec.InstanceID)
	u.DataSecretName.ApplyToPointer(&s.Spec.UserData)
	u.Phase.ApplyTo(&s.Status.Stage)
	node := contract.NodeRef{Name: s.Status.Node, UID: s.Status.NodeUID}
	u.Node.ApplyTo(&node)
	s.Status.Node, s.Status.NodeUID = node.Name, node.UID
	u.InfrastructureReady.ApplyToPointer(&s.Status.Created)
	u.DrainStarted.ApplyTo(&s.Status.DrainStarted.Time)
	u.ObservedGeneration.ApplyTo(&s.Status.Observed)
	s.Status.Conditions = contract.UpdatedConditions(s.Status.Conditions, u.Conditions, u.RemoveConditions)
	return nil
}

// Reconcilers of this module work on a Go type of your own once they know how to read and write it.
func ExampleNewTyped() {
	kind := contract.NewTyped(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"},
		func() *Server { return &Server{} }, func() runtime.Object { return &metav1.List{} }, readServer, writeServer)

	server := &Server{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: ServerSpec{InstanceID: "i-42"}}
	err := kind.Adapter.Write(server, contract.MachineUpdate{
		Phase: contract.SetTo("Running"), Node: contract.SetTo(contract.NodeRef{Name: "node-7", UID: "8d1f"}),
		DrainStarted: contract.SetTo(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		Conditions:   []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}},
	})
	fmt.Println(err, server.Status.Stage, server.Status.Node, server.Status.DrainStarted.UTC(), server.Status.Conditions[0].Reason)

	var state contract.MachineState
	err = kind.Adapter.Read(server, &state)
	fmt.Println(err, state.Key, state.ProviderID, state.Node, state.DataSecretName.Found())
	// Output:
	// <nil> Running node-7 2026-03-01 12:00:00 +0000 UTC NoReasonReported
	// <nil> default/web i-42 {node-7 8d1f} false
}
