package clusterapi

import (
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// machineMaker is the maker of unstructured objects, which Go types are converted to and back.
func machineMaker() contract.MachineMaker {
	of := contract.LayoutsOf(contract.V1Beta2)
	maker := contract.UnstructuredMaker(of.MachineSet, clusterv1.GroupVersion.WithKind("Machine"), of.Machine)
	return contract.NewTypedMaker(
		func(set *clusterv1.MachineSet, seed contract.MachineSeed) (*clusterv1.Machine, error) {
			made := &clusterv1.Machine{}
			err := converted(set, made, func(from, into *unstructured.Unstructured) error {
				obj, err := maker.NewMachine(from, seed)
				return take(obj, into, err)
			})
			return made, err
		},
		func(set *clusterv1.MachineSet, machine *clusterv1.Machine, given []string) (now []string, err error) {
			err = converted(set, machine, func(from, into *unstructured.Unstructured) (err error) {
				now, err = maker.SyncMachine(from, into, given)
				return err
			})
			return now, err
		})
}

// setMaker is the maker of unstructured objects, which Go types are converted to and back.
func setMaker() contract.MachineSetMaker {
	of := contract.LayoutsOf(contract.V1Beta2)
	maker := contract.UnstructuredSetMaker(of.MachineDeployment, clusterv1.GroupVersion.WithKind("MachineSet"), of.MachineSet)
	return contract.NewTypedSetMaker(
		func(d *clusterv1.MachineDeployment, seed contract.MachineSetSeed) (*clusterv1.MachineSet, error) {
			made := &clusterv1.MachineSet{}
			err := converted(d, made, func(from, into *unstructured.Unstructured) error {
				obj, err := maker.NewSet(from, seed)
				return take(obj, into, err)
			})
			return made, err
		},
		func(d *clusterv1.MachineDeployment, set *clusterv1.MachineSet, given []string) (now []string, err error) {
			err = converted(d, set, func(from, into *unstructured.Unstructured) (err error) {
				now, err = maker.SyncSet(from, into, given)
				return err
			})
			return now, err
		},
		func(d *clusterv1.MachineDeployment, set *clusterv1.MachineSet) ([]string, error) {
			from, err := plain(d)
			into, err2 := plain(set)
			if err := errors.Join(err, err2); err != nil {
				return nil, err
			}
			return maker.TemplateDiff(from, into)
		},
		func(set *clusterv1.MachineSet, d *clusterv1.MachineDeployment) error {
			return converted(set, d, func(from, into *unstructured.Unstructured) error { return maker.CopyTemplate(from, into) })
		})
}

// converted has do change the content of an object by that of another one.
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

// take has into become what was made.
func take(made contract.Object, into *unstructured.Unstructured, err error) error {
	if obj, ok := made.(*unstructured.Unstructured); ok && err == nil {
		into.Object = obj.Object
	}
	return err
}
