package contract

import (
	"encoding/base64"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// Labels of Cluster API that link a Machine, or a provider object, to its owner. The values of SetNameLabel, PoolNameLabel and
// ControlPlaneNameLabel are names that may be longer than a label value: use LabelValue to write them and to select by them.
const (
	// SetNameLabel names the MachineSet that controls a Machine.
	SetNameLabel = "cluster.x-k8s.io/set-name"
	// DeploymentNameLabel names the MachineDeployment that a Machine or a MachineSet belongs to.
	DeploymentNameLabel = "cluster.x-k8s.io/deployment-name"
	// PoolNameLabel names the MachinePool that controls a Machine.
	PoolNameLabel = "cluster.x-k8s.io/pool-name"
	// ControlPlaneLabel, with any value, marks a Machine of a control plane.
	ControlPlaneLabel = "cluster.x-k8s.io/control-plane"
	// ControlPlaneNameLabel names the object that controls a Machine of a control plane.
	ControlPlaneNameLabel = "cluster.x-k8s.io/control-plane-name"
)

// WatchFilterLabel selects which of several controllers of one kind reconciles an object: the one that was started with this value as its
// filter. Rule: Cluster API's predicates.ResourceHasFilterLabel.
const WatchFilterLabel = "cluster.x-k8s.io/watch-filter"

// Keys that a MachineDeployment writes to its MachineSets, whatever their API group: cluster-autoscaler reads the revision from this key in
// every group. Rule: Cluster API's util/mdutil and api/core MachineDeployment types.
const (
	// RevisionAnnotation counts the rollouts of a MachineDeployment. A MachineSet with a lower number than its deployment is outdated.
	RevisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"
	// RevisionHistoryAnnotation of a MachineSet lists the earlier revisions of a set that is current again. Other controllers write it; this
	// library does not.
	RevisionHistoryAnnotation = "machinedeployment.clusters.x-k8s.io/revision-history"
	// TemplateHashLabel, on a MachineSet, in its selector and on its Machines, distinguishes the Machines of one set from those of the other
	// sets of a deployment. Its value is only an identity; it is not compared with a template.
	TemplateHashLabel = "machine-template-hash"
)

// Annotations that name the template an object was cloned from.
const (
	// ClonedFromNameAnnotation holds the name of the template.
	ClonedFromNameAnnotation = "cluster.x-k8s.io/cloned-from-name"
	// ClonedFromGroupKindAnnotation holds the kind and the group of the template: "AWSMachineTemplate.infrastructure.cluster.x-k8s.io".
	ClonedFromGroupKindAnnotation = "cluster.x-k8s.io/cloned-from-groupkind"
)

// RemediateAnnotation of a Machine, with any value, requests remediation: a health check treats the Machine as unhealthy, and its owner
// replaces it before others. Rule: Cluster API's.
const RemediateAnnotation = "cluster.x-k8s.io/remediate-machine"

// LabelValue returns the label value for a name: the name itself when it is a valid label value, and otherwise a text with a 32-bit hash of
// it. Two long names may have the same value, so a caller that selects by it must also check the owner. Rule: Cluster API's
// util/labels/format MustFormatValue, which returns the same values.
func LabelValue(name string) string {
	if len(content.IsLabelValue(name)) == 0 {
		return name
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return "hash_" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil)) + "_z"
}

// Annotations of MachineSets, MachineDeployments and MachinePools that cluster-autoscaler's clusterapi provider reads. When CAPI_GROUP is
// set, the autoscaler uses that API group in place of cluster.x-k8s.io. Rule: its cloudprovider/clusterapi README.
const (
	// MinSizeAnnotation is the lower limit of the autoscaler for replicas, a whole number. A similar annotation holds the upper limit.
	MinSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	// ReplicasManagedByAnnotation, on a MachinePool, names the component that manages replicas in place of the pool's controller. The value
	// "false" means none.
	ReplicasManagedByAnnotation = "cluster.x-k8s.io/replicas-managed-by"
)

// ReplicasManagedElsewhere reports whether a component other than the controller of the pool manages replicas. An empty
// ReplicasManagedByAnnotation counts. Rule: Cluster API's annotations.ReplicasManagedByExternalAutoscaler.
func (s *MachinePoolState) ReplicasManagedElsewhere() bool {
	by, managed := s.Annotations[ReplicasManagedByAnnotation]
	return managed && by != "false"
}
