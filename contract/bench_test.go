package contract_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

func BenchmarkFieldGet(b *testing.B) {
	obj := parseJSON(b, provisionedMachine)
	for _, c := range []struct{ name, last string }{{"hit", "providerID"}, {"miss", "absent"}} {
		name, last := c.name, c.last
		b.Run(name, func(b *testing.B) {
			f := contract.At[string]("spec", last)
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = f.Get(obj)
			}
		})
		b.Run(name+"/NestedString", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = unstructured.NestedString(obj, "spec", last)
			}
		})
	}
}

func BenchmarkInfraMachineRead(b *testing.B) {
	obj := parseObject(b, provisionedMachine)
	layout := contract.LayoutsOf(contract.V1Beta2).InfraMachine
	b.Run("layout", func(b *testing.B) {
		var state contract.InfraMachineState
		b.ReportAllocs()
		for b.Loop() {
			if err := layout.Read(obj, &state); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Nested", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = unstructured.NestedBool(obj.Object, "status", "initialization", "provisioned")
			_, _, _ = unstructured.NestedString(obj.Object, "spec", "providerID")
			_, _, _ = unstructured.NestedString(obj.Object, "status", "failureDomain")
			_, _, _ = unstructured.NestedSlice(obj.Object, "status", "addresses")
			_, _, _ = unstructured.NestedSlice(obj.Object, "status", "conditions")
		}
	})
}

func BenchmarkMachineRead(b *testing.B) {
	obj := parseObject(b, fullMachine)
	adapter := machineKind().Adapter
	b.Run("layout", func(b *testing.B) {
		var state contract.MachineState
		b.ReportAllocs()
		for b.Loop() {
			if err := adapter.Read(obj, &state); err != nil {
				b.Fatal(err)
			}
		}
	})
	// The accessors that people use today, for a third of the fields that the layout reads.
	b.Run("Nested", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _, _ = obj.GetLabels(), obj.GetAnnotations(), obj.GetFinalizers(), obj.GetOwnerReferences()
			_, _, _ = unstructured.NestedString(obj.Object, "spec", "clusterName")
			_, _, _ = unstructured.NestedString(obj.Object, "spec", "providerID")
			_, _, _ = unstructured.NestedMap(obj.Object, "spec", "infrastructureRef")
			_, _, _ = unstructured.NestedMap(obj.Object, "spec", "bootstrap", "configRef")
			_, _, _ = unstructured.NestedInt64(obj.Object, "spec", "deletion", "nodeDrainTimeoutSeconds")
			_, _, _ = unstructured.NestedString(obj.Object, "status", "phase")
			_, _, _ = unstructured.NestedString(obj.Object, "status", "nodeRef", "name")
			_, _, _ = unstructured.NestedSlice(obj.Object, "status", "addresses")
			_, _, _ = unstructured.NestedSlice(obj.Object, "status", "conditions")
		}
	})
}

func BenchmarkMergePatch(b *testing.B) {
	before, after := parseObject(b, fullMachine), parseObject(b, fullMachine)
	update := contract.MachineUpdate{Phase: contract.SetTo("Deleting"), ProviderID: contract.SetTo("p://2")}
	if err := machineKind().Adapter.Write(after, update); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = contract.MergePatch(before.Object, after.Object)
	}
}
