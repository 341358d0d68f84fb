package machine_test

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

var serverGVK = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"}

// Server is an embedder's own Go type. What it has no field for is not kept: it needs neither timeouts nor hooks.
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              struct {
		InstanceID string  `json:"instanceID,omitempty"`
		UserData   *string `json:"userData,omitempty"`
	} `json:"spec,omitzero"`
	Status struct {
		Stage        string             `json:"stage,omitempty"`
		Node         string             `json:"node,omitempty"`
		NodeUID      types.UID          `json:"nodeUID,omitempty"`
		Created      *bool              `json:"created,omitempty"`
		DrainStarted metav1.Time        `json:"drainStarted,omitzero"`
		Conditions   []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

type ServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Server `json:"items"`
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

func (l *ServerList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	for i := range c.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Server)
	}
	return &c
}

func readServer(s *Server, into *contract.MachineState) error {
	into.Metadata.From(s)
	into.ProviderID, into.DataSecretName = s.Spec.InstanceID, contract.SomeAt(s.Spec.UserData)
	into.Phase, into.Node = s.Status.Stage, contract.NodeRef{Name: s.Status.Node, UID: s.Status.NodeUID}
	into.InfrastructureReady = contract.SomeAt(s.Status.Created)
	into.DrainStarted = s.Status.DrainStarted.UTC()
	into.Conditions = s.Status.Conditions
	return nil
}

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
	s.Status.Conditions = contract.UpdatedConditions(s.Status.Conditions, u.Conditions, u.RemoveConditions)
	return nil
}

func serverKind(statusSubresource bool) contract.Kind {
	kind := contract.NewTyped(serverGVK, func() *Server { return &Server{} }, func() runtime.Object { return &ServerList{} }, readServer,
		writeServer)
	kind.StatusSubresource = statusSubresource
	return kind
}

func serverScheme(add func(*runtime.Scheme) error) *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = add(scheme)
	scheme.AddKnownTypes(serverGVK.GroupVersion(), &Server{}, &ServerList{})
	metav1.AddToGroupVersion(scheme, serverGVK.GroupVersion())
	return scheme
}
