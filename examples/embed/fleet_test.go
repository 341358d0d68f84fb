package main

import (
	"slices"

	"github.com/machinist-dev/machinist/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A second API group of the same company: a Fleet has a Rack for each version of its template, a Rack has Servers, and a Site is the cluster
// that they join. No type or field has a name of Cluster API. This file has the types, their kinds and their makers; hub_test.go has the
// reconcilers.

// Server is a machine.
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              ServerSpec   `json:"spec,omitzero"`
	Status            ServerStatus `json:"status,omitzero"`
}

// ServerSpec describes a machine. Everything in it is of one value, so that two of them can be compared.
type ServerSpec struct {
	Site string `json:"site,omitempty"`
	Size string `json:"size,omitempty"`
	// ID is set when the machine exists.
	ID string `json:"id,omitempty"`
}

// ServerStatus is the observed state of a machine.
type ServerStatus struct {
	Host       string             `json:"host,omitempty"`
	HostUID    types.UID          `json:"hostUID,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Servers is what a Rack and a Fleet have in common.
type Servers struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              ServersSpec   `json:"spec,omitzero"`
	Status            ServersStatus `json:"status,omitzero"`
}

// ServersSpec has a number of servers and what each is made from.
type ServersSpec struct {
	Count    *int32                `json:"count,omitempty"`
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	Server   Server                `json:"server,omitzero"`
}

// ServersStatus is the observed state.
type ServersStatus struct {
	Count      int32              `json:"count,omitempty"`
	Ready      int32              `json:"ready,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type (
	// Rack keeps a number of Servers.
	Rack struct{ Servers }
	// Fleet brings its Servers from one template to the next.
	Fleet struct{ Servers }
	// Site is a workload cluster. Nothing in it is reconciled while it is closed.
	Site struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitzero"`
		Closed            bool `json:"closed,omitempty"`
	}
)

// fleetKinds are the kinds of the reconcilers, with the makers.
func fleetKinds() contract.Kinds {
	return contract.Kinds{
		Machine:    contract.NewTyped(fleetGroup().WithKind("Server"), newOf[Server], listOf[Server], readServer, writeServer),
		Set:        contract.NewTyped(fleetGroup().WithKind("Rack"), newOf[Rack], listOf[Rack], readRack, writeRack),
		Deployment: contract.NewTyped(fleetGroup().WithKind("Fleet"), newOf[Fleet], listOf[Fleet], readFleet, writeFleet),
		Maker:      serverMaker{}, SetMaker: rackMaker{},
	}
}

func readServer(s *Server, into *contract.MachineState) error {
	into.Metadata.From(s)
	into.ClusterName, into.ProviderID = s.Spec.Site, s.Spec.ID
	into.Node = contract.NodeRef{Name: s.Status.Host, UID: s.Status.HostUID}
	into.Conditions = s.Status.Conditions
	return nil
}

func writeServer(s *Server, u contract.MachineUpdate) error {
	u.MetadataUpdate.ApplyTo(s)
	u.ProviderID.ApplyTo(&s.Spec.ID)
	node := contract.NodeRef{Name: s.Status.Host, UID: s.Status.HostUID}
	u.Node.ApplyTo(&node)
	s.Status.Host, s.Status.HostUID = node.Name, node.UID
	s.Status.Conditions = contract.UpdatedConditions(s.Status.Conditions, u.Conditions, u.RemoveConditions)
	return nil
}

func (s *Servers) read(metadata *contract.Metadata, into *contract.ReplicatedState) {
	metadata.From(s)
	into.ClusterName, into.Template.ClusterName = s.Spec.Server.Spec.Site, s.Spec.Server.Spec.Site
	into.Replicas, into.Selector = contract.SomeAt(s.Spec.Count), s.Spec.Selector
	into.Template.Labels, into.Template.Annotations = s.Spec.Server.Labels, s.Spec.Server.Annotations
	into.ObservedReplicas, into.ReadyReplicas = contract.Some(s.Status.Count), contract.Some(s.Status.Ready)
	into.Conditions = s.Status.Conditions
}

func (s *Servers) write(metadata contract.MetadataUpdate, u contract.ReplicatedUpdate) {
	metadata.ApplyTo(s)
	u.Replicas.ApplyToPointer(&s.Spec.Count)
	u.ObservedReplicas.ApplyTo(&s.Status.Count)
	u.ReadyReplicas.ApplyTo(&s.Status.Ready)
	s.Status.Conditions = contract.UpdatedConditions(s.Status.Conditions, u.Conditions, u.RemoveConditions)
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
	return nil
}

func writeFleet(f *Fleet, u contract.MachineDeploymentUpdate) error {
	f.write(u.MetadataUpdate, u.ReplicatedUpdate)
	return nil
}

// serverMaker makes the Servers of a Rack. Nothing of a Server changes in place.
type serverMaker struct{}

func (serverMaker) NewMachine(set contract.Object, seed contract.MachineSeed) (contract.Object, error) {
	made := &Server{Spec: set.(*Rack).Spec.Server.Spec} //nolint:forcetypeassert // the kinds have no other sets
	seed.ApplyTo(made)
	return made, nil
}

func (serverMaker) SyncMachine(_, _ contract.Object, _ []string) ([]string, error) { return nil, nil }

// rackMaker makes the Racks of a Fleet.
type rackMaker struct{}

func (rackMaker) NewSet(deployment contract.Object, seed contract.MachineSetSeed) (contract.Object, error) {
	fleet, made := deployment.(*Fleet), &Rack{} //nolint:forcetypeassert // the kinds have no other deployments
	seed.ApplyTo(made)
	spec := &made.Spec
	spec.Count, spec.Selector = new(seed.Replicas), fleet.Spec.Selector.DeepCopy()
	spec.Server = *fleet.Spec.Server.DeepCopy()
	for key, value := range seed.TemplateLabels {
		metav1.SetMetaDataLabel(&spec.Server.ObjectMeta, key, value)
	}
	for key, value := range seed.SelectorLabels {
		metav1.AddLabelToSelector(spec.Selector, key, value)
	}
	return made, nil
}

func (rackMaker) SyncSet(_, _ contract.Object, _ []string) ([]string, error) { return nil, nil }

func (rackMaker) TemplateDiff(deployment, set contract.Object) ([]string, error) {
	if deployment.(*Fleet).Spec.Server.Spec != set.(*Rack).Spec.Server.Spec { //nolint:forcetypeassert // as above
		return []string{"spec.server.spec"}, nil
	}
	return nil, nil
}

func (rackMaker) CopyTemplate(set, deployment contract.Object) error {
	deployment.(*Fleet).Spec.Server.Spec = set.(*Rack).Spec.Server.Spec //nolint:forcetypeassert // as above
	return nil
}

// What follows is what deepcopy-gen writes.

func fleetGroup() schema.GroupVersion {
	return schema.GroupVersion{Group: "fleet.example.com", Version: "v1"}
}

func fleetScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(fleetGroup(), &Server{}, &Rack{}, &Fleet{}, &Site{})
	for kind, list := range map[string]func() runtime.Object{
		"Server": listOf[Server], "Rack": listOf[Rack], "Fleet": listOf[Fleet], "Site": listOf[Site],
	} {
		scheme.AddKnownTypeWithName(fleetGroup().WithKind(kind+"List"), list())
	}
	metav1.AddToGroupVersion(scheme, fleetGroup())
	return scheme
}

// List is a list of objects of one type.
type List[T any, P interface {
	*T
	DeepCopy() *T
}] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []T `json:"items"`
}

func newOf[T any]() *T { return new(T) }

func listOf[T any, P interface {
	*T
	DeepCopy() *T
}]() runtime.Object {
	return &List[T, P]{}
}

// DeepCopyObject makes a List an object.
func (l *List[T, P]) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = make([]T, 0, len(l.Items))
	for i := range l.Items {
		c.Items = append(c.Items, *P(&l.Items[i]).DeepCopy())
	}
	return &c
}

// DeepCopy copies a Server.
func (s *Server) DeepCopy() *Server {
	c := *s
	c.ObjectMeta, c.Status.Conditions = *s.ObjectMeta.DeepCopy(), slices.Clone(s.Status.Conditions)
	return &c
}

func (s *Servers) copy() Servers {
	c := *s
	c.ObjectMeta, c.Spec.Selector, c.Spec.Server = *s.ObjectMeta.DeepCopy(), s.Spec.Selector.DeepCopy(), *s.Spec.Server.DeepCopy()
	if s.Spec.Count != nil {
		c.Spec.Count = new(*s.Spec.Count)
	}
	c.Status.Conditions = slices.Clone(s.Status.Conditions)
	return c
}

// DeepCopy copies a Rack.
func (r *Rack) DeepCopy() *Rack { return &Rack{r.copy()} }

// DeepCopy copies a Fleet.
func (f *Fleet) DeepCopy() *Fleet { return &Fleet{f.copy()} }

// DeepCopy copies a Site.
func (s *Site) DeepCopy() *Site {
	c := *s
	c.ObjectMeta = *s.ObjectMeta.DeepCopy()
	return &c
}

// DeepCopyObject makes a Server an object.
func (s *Server) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopyObject makes a Rack an object.
func (r *Rack) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// DeepCopyObject makes a Fleet an object.
func (f *Fleet) DeepCopyObject() runtime.Object { return f.DeepCopy() }

// DeepCopyObject makes a Site an object.
func (s *Site) DeepCopyObject() runtime.Object { return s.DeepCopy() }
