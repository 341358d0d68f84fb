package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Group is the API group.
const Group = "edge.example.com"

// GroupVersion is the group with the version of this package.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: "v1"} }

// Hardware identifies a box.
type Hardware struct {
	// Serial is on the lid. The firmware boots the box as a Node with the provider ID edge://<serial>.
	Serial string `json:"serial"`
	// Console is the address of the baseboard management controller, which switches the box on and off.
	Console string `json:"console"`
	// Rack is the location.
	Rack string `json:"rack,omitempty"`
	// Patience limits the drain of its Node; without it there is no limit.
	Patience *metav1.Duration `json:"patience,omitempty"`
}

// Report is the observed state of a box.
type Report struct {
	// Stage is a summary in one word, and StageSince is when it changed.
	Stage      string      `json:"stage,omitempty"`
	StageSince metav1.Time `json:"stageSince,omitzero"`
	// Host and HostUID are the Node that the box runs as.
	Host    string    `json:"host,omitempty"`
	HostUID types.UID `json:"hostUID,omitempty"`
	// Seen is the generation that the report is about.
	Seen int64 `json:"seen,omitempty"`
	// Conditions are the details.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EdgeServer is one server.
type EdgeServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Hardware `json:"spec,omitzero"`
	Status Report   `json:"status,omitzero"`
}

// EdgeGateway is one gateway. It is older than EdgeServer, and its CRD has no status subresource.
type EdgeGateway struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Hardware `json:"spec,omitzero"`
	Status Report   `json:"status,omitzero"`
}

// EdgeServerList is a list of servers.
type EdgeServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []EdgeServer `json:"items"`
}

// EdgeGatewayList is a list of gateways.
type EdgeGatewayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []EdgeGateway `json:"items"`
}

// Box is what servers and gateways have in common.
type Box interface {
	metav1.Object
	runtime.Object
	// Parts returns the spec and the status, to be changed in place.
	Parts() (*Hardware, *Report)
}

// Parts implements Box.
func (s *EdgeServer) Parts() (*Hardware, *Report) { return &s.Spec, &s.Status }

// Parts implements Box.
func (g *EdgeGateway) Parts() (*Hardware, *Report) { return &g.Spec, &g.Status }

// AddToScheme adds the kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &EdgeServer{}, &EdgeServerList{}, &EdgeGateway{}, &EdgeGatewayList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
