package contract_test

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/machinist-dev/machinist/contract"
)

func ofRacks(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "racks.example.com", Version: "v1", Kind: kind}
}

func racked(text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	_ = utiljson.Unmarshal([]byte(text), &obj.Object) // an object that is empty shows in the output
	return obj
}

// A CRD that refers to its Node as to any other object has places for the kind too.
func ExampleMachineLayout_nodeReference() {
	table := &contract.MachineLayout{
		MachineSpecLayout: contract.MachineSpecLayout{ProviderID: contract.At[string]("spec", "host")},
		NodeAPIVersion:    contract.At[string]("status", "node", "apiVersion"),
		NodeKind:          contract.At[string]("status", "node", "kind"),
		NodeName:          contract.At[string]("status", "node", "name"),
		NodeUID:           contract.At[string]("status", "node", "uid"),
	}
	kind := contract.Unstructured(ofRacks("Host"), table)
	host := racked(`{}`)
	err := kind.Adapter.Write(host, contract.MachineUpdate{Node: contract.SetTo(contract.NodeRef{Name: "n", UID: "u"})})
	fmt.Println(host.Object["status"], err)
	// Output:
	// map[node:map[apiVersion:v1 kind:Node name:n uid:u]] <nil>
}

// A deployment whose hosts are updated in place has limits of their own for that.
func ExampleMachineDeploymentLayout_inPlace() {
	table := &contract.MachineDeploymentLayout{
		RolloutType:           contract.At[string]("spec", "update", "type"),
		AnnotatedRolloutType:  contract.AtAnnotation[string]("racks.example.com/update"), // where the schema allows RollingUpdate only
		MaxSurge:              contract.At[intstr.IntOrString]("spec", "update", "more"),
		MaxUnavailable:        contract.At[intstr.IntOrString]("spec", "update", "fewer"),
		InPlaceMaxSurge:       contract.At[intstr.IntOrString]("spec", "update", "inPlace", "more"),
		InPlaceMaxUnavailable: contract.At[intstr.IntOrString]("spec", "update", "inPlace", "fewer"),
	}
	var state contract.MachineDeploymentState
	err := contract.Unstructured(ofRacks("HostDeployment"), table).Adapter.Read(racked(`{
		"metadata": {"annotations": {"racks.example.com/update": "InPlaceUpdate"}},
		"spec": {"update": {"type": "RollingUpdate", "more": "50%", "inPlace": {"fewer": 2}}}}`), &state)
	unavailable, _ := state.MaxUnavailable.Get()
	fmt.Println(state.RolloutType, state.MaxSurge.Found(), unavailable.String(), err)
	// Output:
	// InPlaceUpdate false 2 <nil>
}

func ExampleMachinePoolLayout() {
	table := &contract.MachinePoolLayout{
		ReplicatedLayout: contract.ReplicatedLayout{Replicas: contract.At[int32]("spec", "size")},
		ProviderIDs:      contract.At[[]string]("status", "hosts"),
	}
	var state contract.MachinePoolState
	err := contract.Unstructured(ofRacks("HostPool"), table).Adapter.Read(racked(
		`{"spec": {"size": 3}, "status": {"hosts": ["rack://1", "rack://2"]}}`), &state)
	fmt.Println(state.Replicas.Or(0), state.ProviderIDs, err)
	// Output:
	// 3 [rack://1 rack://2] <nil>
}

func ExampleHealthCheckLayout() {
	table := &contract.HealthCheckLayout{
		Selector:  contract.At[*metav1.LabelSelector]("spec", "hosts"),
		NodeRules: contract.At[[]contract.HealthRule]("spec", "rules"),
		Targets:   contract.At[[]string]("status", "checked"),
	}
	var state contract.HealthCheckState
	err := contract.Unstructured(ofRacks("HostCheck"), table).Adapter.Read(racked(`{"spec": {"hosts": {"matchLabels": {"row": "7"}},
		"rules": [{"type": "Ready", "status": "False", "timeout": "5m"}]}}`), &state)
	fmt.Println(state.Selector.MatchLabels, state.NodeRules[0].Timeout == 5*time.Minute, err)
	// Output:
	// map[row:7] true <nil>
}

// The Driver of an infrastructure provider gets a part of the spec.
func ExampleProvidedMachineLayout() {
	table := &contract.ProvidedMachineLayout{
		Spec:        contract.At[json.RawMessage]("spec", "host"),
		ProviderID:  contract.At[string]("spec", "providerID"),
		Provisioned: contract.At[bool]("status", "initialization", "provisioned"),
	}
	var state contract.ProvidedMachineState
	err := contract.Unstructured(ofRacks("RackMachine"), table).Adapter.Read(racked(
		`{"spec": {"host": {"units": 2}, "providerID": "rack://1"}}`), &state)
	fmt.Println(string(state.Spec), state.ProviderID, err)
	// Output:
	// {"units":2} rack://1 <nil>
}

// A provider that means something else by a place than the contract does is read without it.
func ExampleInfraMachinePoolLayout() {
	table := *contract.LayoutsOf(contract.V1Beta2).InfraMachinePool
	table.ProvisionedFallback = contract.Field[bool]{} // its status.ready is that of the rack, not of the pool
	var state contract.InfraMachinePoolState
	err := table.Read(racked(`{"status": {"ready": true}}`), &state)
	fmt.Println(state.Provisioned, err)
	// Output:
	// false <nil>
}

func ExampleControlPlaneLayout() {
	read := func(table *contract.ControlPlaneLayout) string {
		var state contract.ControlPlaneState
		if err := table.Read(racked(`{"status": {"version": "v1.36.3", "versions": [{"version": "v1.35.0"}]}}`), &state); err != nil {
			return err.Error()
		}
		return state.CurrentVersion
	}
	table := *contract.LayoutsOf(contract.V1Beta2).ControlPlane
	table.CurrentVersions = contract.Field[[]string]{} // its list has the versions that can be asked for
	fmt.Println(read(contract.LayoutsOf(contract.V1Beta2).ControlPlane), read(&table))
	// Output:
	// v1.35.0 v1.36.3
}

// The schema of a provider's template must keep these places.
func ExamplePlaces() {
	show := func(table *contract.TemplateLayout) {
		for _, place := range contract.Places(table) {
			fmt.Println(place.Paths[0], place.Type, place.Need)
		}
	}
	show(contract.LayoutsOf(contract.V1Beta2).Template)
	// Output:
	// spec.template.metadata.labels map of strings MAY
	// spec.template.metadata.annotations map of strings MAY
	// spec.template.spec object MUST
}

// The read function of a typed set fills in what its Machines are made of.
func ExampleMachineTemplate() {
	templateOf := func(rack string, labels map[string]string) contract.MachineTemplate {
		return contract.MachineTemplate{Labels: labels, MachineSpec: contract.MachineSpec{WantedFailureDomain: rack}}
	}
	state := contract.MachineSetState{}
	state.Template = templateOf("rack-7", map[string]string{"row": "7"})
	fmt.Println(state.Template.WantedFailureDomain, state.Template.Labels)
	// Output:
	// rack-7 map[row:7]
}

// A program of your own shows how far a deletion is.
func ExampleDeletion() {
	asked := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	state := contract.MachineState{Metadata: contract.Metadata{Deleting: asked, Annotations: map[string]string{
		contract.DeletionAnnotation: `{"deletion":"2026-03-01T12:00:00Z","stages":{"drain":{"start":"2026-03-01T12:00:05Z"}}}`,
	}}}
	deletion := state.Deletion(asked.Add(time.Minute))
	fmt.Println(deletion.Stages[contract.StageDrain].Start.Sub(deletion.Requested), deletion.HasEnded(contract.StageDrain, "u"))
	// Output:
	// 5s false
}
