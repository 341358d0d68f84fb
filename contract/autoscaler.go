package contract

// Annotations that cluster-autoscaler's clusterapi provider reads of MachineSets, MachineDeployments and MachinePools. Those that begin
// with cluster.x-k8s.io begin with another API group where the autoscaler is given one in CAPI_GROUP. Rule: its cloudprovider/clusterapi
// README.
const (
	// MinSizeAnnotation and MaxSizeAnnotation are the whole numbers between which the autoscaler keeps replicas.
	MinSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	MaxSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
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
