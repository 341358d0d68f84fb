package contract

import (
	"encoding/base64"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// Labels with which Cluster API says which Machine, and which object of its provider, belongs to what. The values of
// SetNameLabel, PoolNameLabel and ControlPlaneNameLabel are names that may be longer than a label value: write and select
// them through LabelValue.
const (
	// SetNameLabel names the MachineSet that controls a Machine.
	SetNameLabel = "cluster.x-k8s.io/set-name"
	// DeploymentNameLabel names the MachineDeployment that a Machine or a MachineSet belongs to.
	DeploymentNameLabel = "cluster.x-k8s.io/deployment-name"
	// PoolNameLabel names the MachinePool that controls a Machine.
	PoolNameLabel = "cluster.x-k8s.io/pool-name"
	// ControlPlaneLabel, with any value, says that a Machine is part of a control plane.
	ControlPlaneLabel = "cluster.x-k8s.io/control-plane"
	// ControlPlaneNameLabel names the object that controls a Machine of a control plane.
	ControlPlaneNameLabel = "cluster.x-k8s.io/control-plane-name"
)

// WatchFilterLabel says which of several controllers of one kind looks after an object: the one that was started with this value
// as its filter. Rule: Cluster API's predicates.ResourceHasFilterLabel.
const WatchFilterLabel = "cluster.x-k8s.io/watch-filter"

// What a MachineDeployment writes on its MachineSets, whatever API group they have: cluster-autoscaler asks for the revision by this key in
// every group. Rule: Cluster API's util/mdutil and api/core MachineDeployment types.
const (
	// RevisionAnnotation counts the rollouts of a MachineDeployment: a MachineSet with a lower number than its deployment is outdated.
	RevisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"
	// RevisionHistoryAnnotation of a set, by others, lists the earlier revisions of a set that is current again. It is not written here.
	RevisionHistoryAnnotation = "machinedeployment.clusters.x-k8s.io/revision-history"
	// TemplateHashLabel, on a set, in its selector and on its Machines, tells the Machines of one set from those of the other sets of a
	// deployment. Its value is an identity and not compared with a template.
	TemplateHashLabel = "machine-template-hash"
)

// Annotations that say which template an object was cloned from.
const (
	// ClonedFromNameAnnotation holds the name of the template.
	ClonedFromNameAnnotation = "cluster.x-k8s.io/cloned-from-name"
	// ClonedFromGroupKindAnnotation holds the kind and the group of the template: "AWSMachineTemplate.infrastructure.cluster.x-k8s.io".
	ClonedFromGroupKindAnnotation = "cluster.x-k8s.io/cloned-from-groupkind"
)

// RemediateAnnotation of a Machine, with any value, requests its remediation: a health check takes it for unhealthy, and its owner replaces
// it before others. Rule: Cluster API's.
const RemediateAnnotation = "cluster.x-k8s.io/remediate-machine"

// LabelValue returns the label value that stands for a name: the name itself when it is a valid label value, and otherwise,
// say because it has more than 63 characters, a text that is made from a hash of it. The hash has 32 bits, so that two long
// names may share a value: who selects by it must still look at the owner. Rule: Cluster API's util/labels/format
// MustFormatValue, which gives the same value for the same name.
func LabelValue(name string) string {
	if len(content.IsLabelValue(name)) == 0 {
		return name
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return "hash_" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil)) + "_z"
}

// Annotations that cluster-autoscaler's clusterapi provider reads of MachineSets, MachineDeployments and MachinePools. Those that begin
// with cluster.x-k8s.io begin with another API group where the autoscaler is given one in CAPI_GROUP. Rule: its cloudprovider/clusterapi
// README.
const (
	// MinSizeAnnotation is the whole number below which the autoscaler does not scale replicas. There is another one for the most.
	MinSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	// ReplicasManagedByAnnotation, on a MachinePool, names the component that manages replicas in place of its controller. Its value
	// "false" means none.
	ReplicasManagedByAnnotation = "cluster.x-k8s.io/replicas-managed-by"
)

// ReplicasManagedElsewhere reports whether another component than the controller of the pool decides about replicas. The empty value of
// ReplicasManagedByAnnotation counts. Rule: Cluster API's annotations.ReplicasManagedByExternalAutoscaler.
func (s *MachinePoolState) ReplicasManagedElsewhere() bool {
	by, managed := s.Annotations[ReplicasManagedByAnnotation]
	return managed && by != "false"
}
