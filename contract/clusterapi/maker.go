package clusterapi

import (
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// machineMaker converts Go types to unstructured objects and back, and calls the maker of unstructured objects.
type machineMaker struct{ plain contract.MachineMaker }

func newMachineMaker() machineMaker {
	of := contract.LayoutsOf(contract.V1Beta2)
	return machineMaker{contract.UnstructuredMaker(of.MachineSet, clusterv1.GroupVersion.WithKind("Machine"), of.Machine)}
}

// NewMachine implements contract.MachineMaker.
func (m machineMaker) NewMachine(set contract.Object, seed contract.MachineSeed) (contract.Object, error) {
	made := &clusterv1.Machine{}
	err := converted(set, made, func(from, into *unstructured.Unstructured) error {
		obj, err := m.plain.NewMachine(from, seed)
		return take(obj, into, err)
	})
	return made, err
}

// SyncMachine implements contract.MachineMaker.
func (m machineMaker) SyncMachine(set, machine contract.Object, given []string) (now []string, err error) {
	err = converted(set, machine, func(from, into *unstructured.Unstructured) (err error) {
		now, err = m.plain.SyncMachine(from, into, given)
		return err
	})
	return now, err
}

// setMaker converts Go types to unstructured objects and back, and calls the maker of unstructured objects.
type setMaker struct{ plain contract.MachineSetMaker }

func newSetMaker() setMaker {
	of := contract.LayoutsOf(contract.V1Beta2)
	return setMaker{contract.UnstructuredSetMaker(of.MachineDeployment, clusterv1.GroupVersion.WithKind("MachineSet"), of.MachineSet)}
}

// NewSet implements contract.MachineSetMaker.
func (m setMaker) NewSet(d contract.Object, seed contract.MachineSetSeed) (contract.Object, error) {
	made := &clusterv1.MachineSet{}
	err := converted(d, made, func(from, into *unstructured.Unstructured) error {
		obj, err := m.plain.NewSet(from, seed)
		return take(obj, into, err)
	})
	return made, err
}

// SyncSet implements contract.MachineSetMaker.
func (m setMaker) SyncSet(d, set contract.Object, given []string) (now []string, err error) {
	err = converted(d, set, func(from, into *unstructured.Unstructured) (err error) {
		now, err = m.plain.SyncSet(from, into, given)
		return err
	})
	return now, err
}

// TemplateDiff implements contract.MachineSetMaker.
func (m setMaker) TemplateDiff(d, set contract.Object) ([]string, error) {
	from, err := plain(d)
	into, err2 := plain(set)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return m.plain.TemplateDiff(from, into)
}

// CopyTemplate implements contract.MachineSetMaker.
func (m setMaker) CopyTemplate(set, d contract.Object) error {
	return converted(set, d, func(from, into *unstructured.Unstructured) error { return m.plain.CopyTemplate(from, into) })
}

// converted calls do with the unstructured content of both objects, and stores the changed content of the second one in into.
func converted(from, into contract.Object, do func(from, into *unstructured.Unstructured) error) error {
	source, err := plain(from)
	target, err2 := plain(into)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if err := do(source, target); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(target.Object, into)
}

func plain(obj contract.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	return &unstructured.Unstructured{Object: content}, err
}

// take replaces the content of into with that of made.
func take(made contract.Object, into *unstructured.Unstructured, err error) error {
	if obj, ok := made.(*unstructured.Unstructured); ok && err == nil {
		into.Object = obj.Object
	}
	return err
}
