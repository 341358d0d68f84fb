package machineset_test

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Server and Rack are an embedder's own Go types: a Rack keeps a number of Servers.
type (
	Server struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitzero"`
		Spec              ServerSpec   `json:"spec,omitzero"`
		Status            ServerStatus `json:"status,omitzero"`
	}
	ServerSpec struct {
		Size string `json:"size,omitempty"`
	}
	ServerStatus struct {
		Node       string             `json:"node,omitempty"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	Rack struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitzero"`
		Spec              RackSpec   `json:"spec,omitzero"`
		Status            RackStatus `json:"status,omitzero"`
	}
	RackSpec struct {
		Replicas *int32                `json:"replicas,omitempty"`
		Selector *metav1.LabelSelector `json:"selector,omitempty"`
		Template Server                `json:"template,omitzero"`
	}
	RackStatus struct {
		Replicas      int32 `json:"replicas,omitempty"`
		ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	}
	list[T any] struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitzero"`
		Items           []T `json:"items"`
	}
	ServerList struct{ list[Server] }
	RackList   struct{ list[Rack] }
)

func (s *Server) DeepCopyObject() runtime.Object { return new(s.copy()) }

func (s *Server) copy() Server {
	c := *s
	c.ObjectMeta, c.Status.Conditions = *s.ObjectMeta.DeepCopy(), slices.Clone(s.Status.Conditions)
	return c
}

func (r *Rack) DeepCopyObject() runtime.Object { return new(r.copy()) }

func (r *Rack) copy() Rack {
	c := *r
	c.ObjectMeta, c.Spec.Selector, c.Spec.Template = *r.ObjectMeta.DeepCopy(), r.Spec.Selector.DeepCopy(), r.Spec.Template.copy()
	if r.Spec.Replicas != nil {
		c.Spec.Replicas = new(*r.Spec.Replicas)
	}
	return c
}

func (l *ServerList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, l.Items[i].copy())
	}
	return &c
}

func (l *RackList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, l.Items[i].copy())
	}
	return &c
}

// racks returns the kinds of these types and a scheme that knows them.
func racks() (contract.Kinds, *runtime.Scheme) {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &Server{}, &ServerList{}, &Rack{}, &RackList{})
	metav1.AddToGroupVersion(scheme, version)
	servers := contract.NewTyped(version.WithKind("Server"), func() *Server { return &Server{} },
		func() runtime.Object { return &ServerList{} }, readServer, writeServer)
	sets := contract.NewTyped(version.WithKind("Rack"), func() *Rack { return &Rack{} },
		func() runtime.Object { return &RackList{} }, readRack, writeRack)
	return contract.Kinds{Set: sets, Machine: servers, Maker: serverMaker{}}, scheme
}

// serverMaker makes the servers of a rack.
type serverMaker struct{}

func (serverMaker) NewMachine(set contract.Object, seed contract.MachineSeed) (contract.Object, error) {
	made := &Server{Spec: set.(*Rack).Spec.Template.Spec}
	seed.ApplyTo(made)
	return made, nil
}

func (serverMaker) SyncMachine(_, _ contract.Object, _ []string) ([]string, error) { return nil, nil }

func readServer(s *Server, into *contract.MachineState) error {
	into.Metadata.From(s)
	into.Node, into.Conditions = contract.NodeRef{Name: s.Status.Node}, s.Status.Conditions
	return nil
}

func writeServer(s *Server, u contract.MachineUpdate) error {
	u.MetadataUpdate.ApplyTo(s)
	node := contract.NodeRef{Name: s.Status.Node}
	u.Node.ApplyTo(&node)
	s.Status.Node = node.Name
	s.Status.Conditions = contract.UpdatedConditions(s.Status.Conditions, u.Conditions, u.RemoveConditions)
	return nil
}

func readRack(r *Rack, into *contract.MachineSetState) error {
	into.Metadata.From(r)
	into.Replicas, into.Selector, into.Template.Labels = contract.SomeAt(r.Spec.Replicas), r.Spec.Selector, r.Spec.Template.Labels
	into.ObservedReplicas, into.ReadyReplicas = contract.Some(r.Status.Replicas), contract.Some(r.Status.ReadyReplicas)
	return nil
}

func writeRack(r *Rack, u contract.MachineSetUpdate) error {
	u.MetadataUpdate.ApplyTo(r)
	u.Replicas.ApplyToPointer(&r.Spec.Replicas)
	u.ObservedReplicas.ApplyTo(&r.Status.Replicas)
	u.ReadyReplicas.ApplyTo(&r.Status.ReadyReplicas)
	return nil
}
