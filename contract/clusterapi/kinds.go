package clusterapi

import (
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machinepool"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// AddToScheme adds the types to the scheme of a manager. It is Cluster API's own function: it may be called more than once.
func AddToScheme(scheme *runtime.Scheme) error { return clusterv1.AddToScheme(scheme) }

// Machine returns the kind for machine.New.
func Machine() contract.Kind {
	return contract.NewTypedReusing(clusterv1.GroupVersion.WithKind("Machine"), func() *clusterv1.Machine { return &clusterv1.Machine{} },
		func() runtime.Object { return &clusterv1.MachineList{} }, readMachine, writeMachine)
}

func setKind() contract.MachineSetKind {
	return contract.NewTypedReusing(clusterv1.GroupVersion.WithKind("MachineSet"),
		func() *clusterv1.MachineSet { return &clusterv1.MachineSet{} },
		func() runtime.Object { return &clusterv1.MachineSetList{} }, readMachineSet, writeMachineSet)
}

func deploymentKind() contract.MachineDeploymentKind {
	return contract.NewTypedReusing(clusterv1.GroupVersion.WithKind("MachineDeployment"),
		func() *clusterv1.MachineDeployment { return &clusterv1.MachineDeployment{} },
		func() runtime.Object { return &clusterv1.MachineDeploymentList{} }, readMachineDeployment, writeMachineDeployment)
}

func poolKind() contract.MachinePoolKind {
	return contract.NewTypedReusing(clusterv1.GroupVersion.WithKind("MachinePool"),
		func() *clusterv1.MachinePool { return &clusterv1.MachinePool{} },
		func() runtime.Object { return &clusterv1.MachinePoolList{} }, readMachinePool, writeMachinePool)
}

func healthCheckKind() contract.HealthCheckKind {
	return contract.NewTypedReusing(clusterv1.GroupVersion.WithKind("MachineHealthCheck"),
		func() *clusterv1.MachineHealthCheck { return &clusterv1.MachineHealthCheck{} },
		func() runtime.Object { return &clusterv1.MachineHealthCheckList{} }, readHealthCheck, writeHealthCheck)
}

// Kinds returns the kinds for machineset.New, deployment.New and remediation.New.
func Kinds() contract.Kinds {
	return contract.Kinds{
		Deployment: deploymentKind(), Set: setKind(), Machine: Machine(), Check: healthCheckKind(),
		Maker: newMachineMaker(), SetMaker: newSetMaker(),
	}
}

// MachinePools returns the kinds for machinepool.New.
func MachinePools() machinepool.Kinds {
	return machinepool.Kinds{Pool: poolKind(), Machine: Machine(), NewMachine: newPoolMachine}
}
