package testenv

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// An embedder's own Go types.
type (
	// Server is a machine.
	Server struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitzero"`
		Spec              ServerSpec   `json:"spec,omitzero"`
		Status            ServerStatus `json:"status,omitzero"`
	}
	// ServerSpec is what a Server is made from.
	ServerSpec struct {
		Size string `json:"size,omitempty"`
	}
	// ServerStatus is the observed state of a Server.
	ServerStatus struct {
		Node       string             `json:"node,omitempty"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	// Servers is what a Rack and a Fleet have in common.
	Servers struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitzero"`
		Spec              ServersSpec   `json:"spec,omitzero"`
		Status            ServersStatus `json:"status,omitzero"`
	}
	// ServersSpec has a number of Servers and their template.
	ServersSpec struct {
		Replicas   *int32                `json:"replicas,omitempty"`
		Selector   *metav1.LabelSelector `json:"selector,omitempty"`
		Template   Server                `json:"template,omitzero"`
		RollbackTo *int64                `json:"rollbackTo,omitempty"`
	}
	// ServersStatus has the numbers of Servers.
	ServersStatus struct {
		Replicas      int32 `json:"replicas,omitempty"`
		ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	}
	// Rack keeps a number of Servers.
	Rack struct{ Servers }
	// Fleet has a Rack for each template.
	Fleet         struct{ Servers }
	listOf[T any] struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitzero"`
		Items           []T `json:"items"`
	}
	// ServerList is a list of Servers.
	ServerList struct{ listOf[Server] }
	// RackList is a list of Racks.
	RackList struct{ listOf[Rack] }
	// FleetList is a list of Fleets.
	FleetList struct{ listOf[Fleet] }
)

func (s Server) copy() Server {
	s.ObjectMeta, s.Status.Conditions = *s.ObjectMeta.DeepCopy(), slices.Clone(s.Status.Conditions)
	return s
}

func (s Servers) copy() Servers {
	s.ObjectMeta, s.Spec.Selector, s.Spec.Template = *s.ObjectMeta.DeepCopy(), s.Spec.Selector.DeepCopy(), s.Spec.Template.copy()
	if s.Spec.Replicas != nil {
		s.Spec.Replicas = new(*s.Spec.Replicas)
	}
	if s.Spec.RollbackTo != nil {
		s.Spec.RollbackTo = new(*s.Spec.RollbackTo)
	}
	return s
}

func (l listOf[T]) copy(one func(T) T) listOf[T] {
	items := make([]T, 0, len(l.Items))
	for _, item := range l.Items {
		items = append(items, one(item))
	}
	l.Items = items
	return l
}

// DeepCopyObject makes a Server an object.
func (s *Server) DeepCopyObject() runtime.Object { return new(s.copy()) }

// DeepCopyObject makes a Rack an object.
func (r *Rack) DeepCopyObject() runtime.Object { return &Rack{r.copy()} }

// DeepCopyObject makes a Fleet an object.
func (f *Fleet) DeepCopyObject() runtime.Object { return &Fleet{f.copy()} }

// DeepCopyObject makes a ServerList an object.
func (l *ServerList) DeepCopyObject() runtime.Object { return &ServerList{l.copy(Server.copy)} }

// DeepCopyObject makes a RackList an object.
func (l *RackList) DeepCopyObject() runtime.Object {
	return &RackList{l.copy(func(r Rack) Rack { return Rack{r.Servers.copy()} })}
}

// DeepCopyObject makes a FleetList an object.
func (l *FleetList) DeepCopyObject() runtime.Object {
	return &FleetList{l.copy(func(f Fleet) Fleet { return Fleet{f.Servers.copy()} })}
}

// Fleets returns the kinds of these types, for the reconcilers of sets and of deployments, and a scheme that has them.
func Fleets() (contract.Kinds, *runtime.Scheme) {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &Server{}, &ServerList{}, &Rack{}, &RackList{}, &Fleet{}, &FleetList{})
	metav1.AddToGroupVersion(scheme, version)
	servers := contract.NewTyped(version.WithKind("Server"), func() *Server { return &Server{} },
		func() runtime.Object { return &ServerList{} }, readServer, writeServer)
	racks := contract.NewTyped(version.WithKind("Rack"), func() *Rack { return &Rack{} },
		func() runtime.Object { return &RackList{} }, readRack, writeRack)
	deployments := contract.NewTyped(version.WithKind("Fleet"), func() *Fleet { return &Fleet{} },
		func() runtime.Object { return &FleetList{} }, readFleet, writeFleet)
	return contract.Kinds{Deployment: deployments, Set: racks, Machine: servers, Maker: serverMaker{}, SetMaker: rackMaker{}}, scheme
}

// serverMaker makes the servers of a rack.
type serverMaker struct{}

func (serverMaker) NewMachine(set contract.Object, seed contract.MachineSeed) (contract.Object, error) {
	made := &Server{Spec: set.(*Rack).Spec.Template.Spec}
	seed.ApplyTo(made)
	return made, nil
}

func (serverMaker) SyncMachine(_, _ contract.Object, _ []string) ([]string, error) { return nil, nil }

// rackMaker makes the racks of a fleet.
type rackMaker struct{}

func (rackMaker) SyncSet(_, _ contract.Object, _ []string) ([]string, error) { return nil, nil }

func (rackMaker) TemplateDiff(deployment, set contract.Object) ([]string, error) {
	if deployment.(*Fleet).Spec.Template.Spec != set.(*Rack).Spec.Template.Spec {
		return []string{"spec.template.spec.size"}, nil
	}
	return nil, nil
}

func (rackMaker) CopyTemplate(set, deployment contract.Object) error {
	deployment.(*Fleet).Spec.Template.Spec = set.(*Rack).Spec.Template.Spec
	return nil
}

func (rackMaker) NewSet(deployment contract.Object, seed contract.MachineSetSeed) (contract.Object, error) {
	fleet, made := deployment.(*Fleet), &Rack{}
	seed.ApplyTo(made)
	made.Spec.Replicas, made.Spec.Selector, made.Spec.Template = new(seed.Replicas), fleet.Spec.Selector.DeepCopy(), fleet.Spec.Template.copy()
	for key, value := range seed.TemplateLabels {
		metav1.SetMetaDataLabel(&made.Spec.Template.ObjectMeta, key, value)
	}
	for key, value := range seed.SelectorLabels {
		metav1.AddLabelToSelector(made.Spec.Selector, key, value)
	}
	return made, nil
}

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

func (s *Servers) read(into *contract.Metadata, state *contract.ReplicatedState) {
	into.From(s)
	state.Replicas, state.Selector, state.Template.Labels = contract.SomeAt(s.Spec.Replicas), s.Spec.Selector, s.Spec.Template.Labels
	state.ObservedReplicas, state.ReadyReplicas = contract.Some(s.Status.Replicas), contract.Some(s.Status.ReadyReplicas)
}

func (s *Servers) write(metadata contract.MetadataUpdate, u contract.ReplicatedUpdate) {
	metadata.ApplyTo(s)
	u.Replicas.ApplyToPointer(&s.Spec.Replicas)
	u.ObservedReplicas.ApplyTo(&s.Status.Replicas)
	u.ReadyReplicas.ApplyTo(&s.Status.ReadyReplicas)
}

func readRack(r *Rack, into *contract.MachineSetState) error {
	r.read(&into.Metadata, &into.ReplicatedState)
	return nil
}

func writeRack(r *Rack, u contract.MachineSetUpdate) error {
	r.write(u.MetadataUpdate, u.ReplicatedUpdate)
	return nil
}

func readFleet(f *Fleet, into *contract.MachineDeploymentState) error {
	f.read(&into.Metadata, &into.ReplicatedState)
	into.RollbackTo = contract.SomeAt(f.Spec.RollbackTo)
	return nil
}

func writeFleet(f *Fleet, u contract.MachineDeploymentUpdate) error {
	f.write(u.MetadataUpdate, u.ReplicatedUpdate)
	u.RollbackTo.ApplyToPointer(&f.Spec.RollbackTo)
	return nil
}
