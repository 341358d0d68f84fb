package clusterapi_test

import (
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/patch"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Each kind as a Go type, as unstructured content, and as a Go type that is converted for each read.
func BenchmarkRead(b *testing.B) {
	b.Run("Machine", func(b *testing.B) { machines().benchRead(b, fullMachine) })
	b.Run("MachineSet", func(b *testing.B) { machineSets().benchRead(b, fullMachineSet) })
	b.Run("MachineDeployment", func(b *testing.B) { machineDeployments().benchRead(b, fullMachineDeployment) })
	b.Run("MachinePool", func(b *testing.B) { machinePools().benchRead(b, fullMachinePool) })
	b.Run("MachineHealthCheck", func(b *testing.B) { healthChecks().benchRead(b, fullHealthCheck) })
}

func (p pair[S, U]) benchRead(b *testing.B, full string) {
	b.Helper()
	obj, content := p.objects(b, full)
	var state S
	run := func(name string, read func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("typed", func() error { return p.typed.Adapter.Read(obj, &state) })
	run("unstructured", func() error { return p.plain.Adapter.Read(content, &state) })
	run("converted", func() error {
		converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return err
		}
		return p.plain.Adapter.Read(&unstructured.Unstructured{Object: converted}, &state)
	})
}

func (p pair[S, U]) objects(b *testing.B, full string) (contract.Object, *unstructured.Unstructured) {
	b.Helper()
	content := p.plain.New().(*unstructured.Unstructured)
	if err := utiljson.Unmarshal([]byte(full), &content.Object); err != nil {
		b.Fatal(err)
	}
	return decoded(b, p.typed, full), content
}

// A small update of a Machine: the adapter alone, on a copy, and the patch that is computed from it.
func BenchmarkWriteMachine(b *testing.B) {
	p := machines()
	obj, content := p.objects(b, fullMachine)
	update := contract.MachineUpdate{Phase: contract.SetTo("Deleted"), ProviderID: contract.SetTo("p://2")}
	for _, c := range []struct {
		name string
		kind contract.Kind
		obj  contract.Object
	}{{"typed", p.typed, obj}, {"unstructured", p.plain, content}} {
		b.Run(c.name+"/adapter", func(b *testing.B) {
			b.ReportAllocs()
			changed := c.obj.DeepCopyObject().(contract.Object)
			for b.Loop() {
				if err := c.kind.Adapter.Write(changed, update); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/patch", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := patch.Apply(c.kind, c.obj, update); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
