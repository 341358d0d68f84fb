package contract

// Layouts locates the fields of the objects of one API in one version. A kind that the API does not have is nil. The tables are shared and
// must not be changed: copy one to make your own layout.
type Layouts struct {
	Machine           *MachineLayout
	MachineSet        *MachineSetLayout
	MachineDeployment *MachineDeploymentLayout
	MachinePool       *MachinePoolLayout
	HealthCheck       *HealthCheckLayout
	Cluster           *ClusterLayout

	// ControlPlane and the following are objects of providers, by the contract of the version. ProvidedMachine is the InfraMachine as its own
	// provider writes it.
	ControlPlane     *ControlPlaneLayout
	InfraMachine     *InfraMachineLayout
	ProvidedMachine  *ProvidedMachineLayout
	BootstrapConfig  *BootstrapConfigLayout
	InfraMachinePool *InfraMachinePoolLayout
	// Template is the layout of every kind of template.
	Template *TemplateLayout
}

var layoutTables = map[Version]Layouts{
	V1Alpha3: layoutsBefore(V1Alpha3), V1Alpha4: layoutsBefore(V1Alpha4), V1Beta1: layoutsV1Beta1(), V1Beta2: layoutsV1Beta2(),
}

// LayoutsOf returns the layouts of a contract version. Layouts of cluster.x-k8s.io exist for V1Beta1 and V1Beta2. In v1beta1, conditions
// are written in both shapes. All layouts of an unsupported version are nil.
func LayoutsOf(v Version) Layouts { return layoutTables[v] }

// layoutsBefore returns the layouts of the contract versions before v1beta2. They have the same places and differ in the behavior of
// controllers.
func layoutsBefore(v Version) Layouts {
	return Layouts{
		ControlPlane: new(controlPlane(v)), InfraMachine: new(infraMachineBefore(v)), ProvidedMachine: new(providedMachineBefore(v)),
		BootstrapConfig: new(bootstrapConfigBefore(v)), InfraMachinePool: new(infraMachinePoolBefore(v)), Template: &templateTable,
	}
}

func layoutsV1Beta1() Layouts {
	l := layoutsBefore(V1Beta1)
	l.Machine, l.MachineSet, l.MachineDeployment = &machineV1Beta1, &machineSetV1Beta1, &machineDeploymentV1Beta1
	l.MachinePool, l.HealthCheck, l.Cluster = &machinePoolV1Beta1, &healthCheckV1Beta1, new(clusterV1Beta1())
	return l
}

func layoutsV1Beta2() Layouts {
	const v = V1Beta2
	return Layouts{
		Machine: &machineV1Beta2, MachineSet: &machineSetV1Beta2, MachineDeployment: &machineDeploymentV1Beta2,
		MachinePool: &machinePoolV1Beta2, HealthCheck: &healthCheckV1Beta2, Cluster: new(clusterV1Beta2()),
		ControlPlane: new(controlPlane(v)), InfraMachine: new(infraMachineSinceV1Beta2(v)), ProvidedMachine: new(providedMachineSinceV1Beta2(v)),
		BootstrapConfig: new(bootstrapConfigSinceV1Beta2(v)), InfraMachinePool: new(infraMachinePoolSinceV1Beta2(v)), Template: &templateTable,
	}
}

// KubermaticLayouts returns the layouts of cluster.k8s.io/v1alpha1, the API of Kubermatic's machine-controller. The CRD of its Machines has
// no status subresource: set StatusSubresource of the Kind to false, as [Kubermatic] does.
func KubermaticLayouts() Layouts {
	return Layouts{Machine: &machineKubermatic, MachineSet: &machineSetKubermatic, MachineDeployment: &machineDeploymentKubermatic}
}

// GardenerLayouts returns the layouts of machine.sapcloud.io/v1alpha1, the API of Gardener's machine-controller-manager.
func GardenerLayouts() Layouts {
	return Layouts{Machine: &machineGardener, MachineSet: &machineSetGardener, MachineDeployment: &machineDeploymentGardener}
}
