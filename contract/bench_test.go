package contract_test

import (
	"testing"

	"github.com/machinist-dev/machinist/contract"
)

func BenchmarkFieldGet(b *testing.B) {
	obj := parseJSON(b, provisionedMachine)
	for name, last := range map[string]string{"hit": "providerID", "miss": "absent"} {
		b.Run(name, func(b *testing.B) {
			f := contract.At[string]("spec", last)
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = f.Get(obj)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	machine, pool, infra := parseObject(b, fullMachine), parseObject(b, fullPool), parseObject(b, provisionedMachine)
	layouts, adapter := contract.LayoutsOf(contract.V1Beta2), machineKind().Adapter
	var machineState contract.MachineState
	var poolState contract.InfraMachinePoolState
	var infraState contract.InfraMachineState
	for name, read := range map[string]func() error{
		"Machine":          func() error { return adapter.Read(machine, &machineState) },
		"InfraMachine":     func() error { return layouts.InfraMachine.Read(infra, &infraState) },
		"InfraMachinePool": func() error { return layouts.InfraMachinePool.Read(pool, &poolState) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
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
