package clusterapi_test

import (
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/machinist-dev/machinist/contract/clusterapi"
)

const (
	fullMetadata = `"metadata":{"namespace":"default","name":"m","uid":"u-1","resourceVersion":"42","generation":7,
		"creationTimestamp":"2026-03-01T12:00:00Z","deletionTimestamp":"2026-03-01T13:00:00Z","labels":{"a":"b"},
		"annotations":{"machinist.dev/node-uid":"n-uid",
			"machinist.dev/rollout-type":"InPlaceUpdate","machinist.dev/in-place-orchestration":"Manual","machinist.dev/rollback-to":"3"},
		"finalizers":["machine.cluster.x-k8s.io"],"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"o-uid","controller":true}]}`
	fullSpec = `{"clusterName":"c1","version":"v1.36.3","providerID":"p://1","failureDomain":"wanted",
		"bootstrap":{"configRef":{"apiGroup":"bootstrap.cluster.x-k8s.io","kind":"KubeadmConfig","name":"b1"},"dataSecretName":""},
		"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"AWSMachine","name":"i1"},
		"deletion":{"nodeDrainTimeoutSeconds":0,"nodeDeletionTimeoutSeconds":10,"nodeVolumeDetachTimeoutSeconds":5},
		"minReadySeconds":30,"readinessGates":[{"conditionType":"Synced"},{"conditionType":"Broken","polarity":"Negative"}],
		"taints":[{"key":"k","value":"v","effect":"NoSchedule","propagation":"Always"}]}`
	fullConditions = `"conditions":[{"type":"Ready","status":"False","reason":"R","message":"m","observedGeneration":6,
		"lastTransitionTime":"2026-03-01T14:00:00+02:00"},{"type":"Available","status":"Unknown","reason":"","lastTransitionTime":null}]`
	fullStatus = `"selector":"a=b","replicas":5,"readyReplicas":4,"availableReplicas":3,"upToDateReplicas":0,"observedGeneration":6,"phase":"P",
		"initialization":{"bootstrapDataSecretCreated":true,"infrastructureProvisioned":false},` + fullConditions
	fullReplicated = `"clusterName":"c1","replicas":0,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In",
		"values":["v"]}]},"template":{"metadata":{"labels":{"a":"b"},"annotations":{"x":"y"}},"spec":` + fullSpec + `},
		"deletion":{"order":"Newest"},"machineNaming":{"template":"t"}`

	fullMachine = `{` + fullMetadata + `,"spec":` + fullSpec + `,"status":{
		"phase":"Deleting","nodeRef":{"name":"n1"},"failureDomain":"a","observedGeneration":6,"unknown":"ignored",
		"lastUpdated":"2026-03-01T12:00:00Z","certificatesExpiryDate":"2026-03-02T12:00:00Z",
		"deletion":{"nodeDrainStartTime":"2026-03-01T14:00:00+02:00","waitForNodeVolumeDetachStartTime":"2026-03-01T13:00:00Z"},
		"deprecated":{"v1beta1":{"failureReason":"FR","failureMessage":"FM"}},
		"initialization":{"bootstrapDataSecretCreated":true,"infrastructureProvisioned":false},
		"addresses":[{"type":"Hostname","address":"h"}],"nodeInfo":{"kubeletVersion":"v1.36.3"},` + fullConditions + `}}`
	fullMachineSet = `{` + fullMetadata + `,"spec":{` + fullReplicated + `},"status":{` + fullStatus + `,"deprecated":{"v1beta1":{
		"readyReplicas":2,"availableReplicas":1,"fullyLabeledReplicas":7,"failureReason":"FR","failureMessage":"FM"}}}}`
	fullMachineDeployment = `{` + fullMetadata + `,"spec":{` + fullReplicated + `,"paused":true,"remediation":{"maxInFlight":"20%"},
		"rollout":{"after":"2026-03-01T12:00:00Z","strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2,"maxUnavailable":"25%"}}}},
		"status":{` + fullStatus + `,"deprecated":{"v1beta1":{"readyReplicas":2,"availableReplicas":1,"unavailableReplicas":8,
		"updatedReplicas":9}}}}`
	fullMachinePool = `{` + fullMetadata + `,"spec":{` + fullReplicated + `,"providerIDList":["p://1","p://2"],"failureDomains":["a","b"]},
		"status":{` + fullStatus + `,"nodeRefs":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n1-uid"},{"name":"n2"}],
		"deprecated":{"v1beta1":{"readyReplicas":2,"availableReplicas":1,"unavailableReplicas":8,"failureReason":"FR","failureMessage":"FM"}}}}`
	fullHealthCheck = `{` + fullMetadata + `,"spec":{"clusterName":"c1","selector":{"matchLabels":{"a":"b"}},
		"checks":{"nodeStartupTimeoutSeconds":0,"unhealthyNodeConditions":[{"type":"Ready","status":"Unknown","timeoutSeconds":300}],
			"unhealthyMachineConditions":[{"type":"InfrastructureReady","status":"False","timeoutSeconds":0}]},
		"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":"40%","unhealthyInRange":"[3-5]"},
			"templateRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"RemediationTemplate","name":"t"}}},
		"status":{"expectedMachines":5,"currentHealthy":4,"remediationsAllowed":0,"targets":["a","b"],"observedGeneration":6,` + fullConditions + `}}`
)

func machines() pair[contract.MachineState, contract.MachineUpdate] {
	return pair[contract.MachineState, contract.MachineUpdate]{clusterapi.Machine(),
		contract.Unstructured(clusterv1.GroupVersion.WithKind("Machine"), contract.LayoutsOf(contract.V1Beta2).Machine)}
}

func machineSets() pair[contract.MachineSetState, contract.MachineSetUpdate] {
	return pair[contract.MachineSetState, contract.MachineSetUpdate]{clusterapi.Kinds().Set,
		contract.Unstructured(clusterv1.GroupVersion.WithKind("MachineSet"), contract.LayoutsOf(contract.V1Beta2).MachineSet)}
}

func machineDeployments() pair[contract.MachineDeploymentState, contract.MachineDeploymentUpdate] {
	return pair[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]{clusterapi.Kinds().Deployment,
		contract.Unstructured(clusterv1.GroupVersion.WithKind("MachineDeployment"), contract.LayoutsOf(contract.V1Beta2).MachineDeployment)}
}

func machinePools() pair[contract.MachinePoolState, contract.MachinePoolUpdate] {
	return pair[contract.MachinePoolState, contract.MachinePoolUpdate]{clusterapi.MachinePools().Pool,
		contract.Unstructured(clusterv1.GroupVersion.WithKind("MachinePool"), contract.LayoutsOf(contract.V1Beta2).MachinePool)}
}

func healthChecks() pair[contract.HealthCheckState, contract.HealthCheckUpdate] {
	return pair[contract.HealthCheckState, contract.HealthCheckUpdate]{clusterapi.Kinds().Check,
		contract.Unstructured(clusterv1.GroupVersion.WithKind("MachineHealthCheck"), contract.LayoutsOf(contract.V1Beta2).HealthCheck)}
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func TestEachKindReadsAndWritesWhatTheUnstructuredOneDoes(t *testing.T) {
	r := always{}
	t.Run("Machine", func(t *testing.T) { machines().check(t, fullMachine, machineUpdate(r)) })
	t.Run("MachineSet", func(t *testing.T) { machineSets().check(t, fullMachineSet, machineSetUpdate(r)) })
	t.Run("MachineDeployment", func(t *testing.T) { machineDeployments().check(t, fullMachineDeployment, machineDeploymentUpdate(r)) })
	t.Run("MachinePool", func(t *testing.T) { machinePools().check(t, fullMachinePool, machinePoolUpdate(r)) })
	t.Run("MachineHealthCheck", func(t *testing.T) { healthChecks().check(t, fullHealthCheck, healthCheckUpdate(r)) })
}

// chooser decides what an update says of a member: nothing, a value, or that it goes.
type chooser interface{ IntN(n int) int }

// always sets every member to its first value.
type always struct{}

func (always) IntN(int) int { return 0 }

func change[T any](r chooser, values ...T) contract.Change[T] {
	switch at := r.IntN(len(values) + 2); at {
	case len(values):
		return contract.Cleared[T]()
	case len(values) + 1:
		return contract.Change[T]{}
	default:
		return contract.SetTo(values[at])
	}
}

func metadataUpdate(r chooser) contract.MetadataUpdate {
	return contract.MetadataUpdate{
		Finalizers:      change(r, []string{"x", "y"}, nil),
		OwnerReferences: change(r, []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "o"}}, nil),
		Labels:          map[string]contract.Change[string]{"a": change(r, "c", ""), "new": change(r, "n")},
		Annotations:     map[string]contract.Change[string]{"note": change(r, "n", ""), contract.DrainedAnnotation: change(r, "of another")},
	}
}

func conditionUpdate(r chooser) ([]metav1.Condition, []string) {
	all := []metav1.Condition{
		{Type: "Ready", Status: "True", Reason: "Up", LastTransitionTime: metav1.NewTime(noon().Add(time.Hour))},
		{Type: "New", Status: "Unknown", Reason: "N", Message: "m", ObservedGeneration: 8, LastTransitionTime: metav1.NewTime(noon())},
		{Type: "Paused", Status: "False", LastTransitionTime: metav1.NewTime(noon())},
	}
	return all[r.IntN(len(all)+1):], []string{"Available", "Ready", "NeverThere"}[:r.IntN(3)+1]
}

func machineUpdate(r chooser) contract.MachineUpdate {
	u := contract.MachineUpdate{
		MetadataUpdate: metadataUpdate(r), ProviderID: change(r, "p://2", ""), DataSecretName: change(r, "s", ""),
		Phase:          change(r, "Running", ""),
		Node:           change(r, contract.NodeRef{Name: "n2", UID: "n2-uid"}, contract.NodeRef{Name: "n3"}, contract.NodeRef{}),
		BootstrapReady: change(r, true, false), InfrastructureReady: change(r, false, true),
		Addresses:     change(r, []contract.Address{{Type: "InternalIP", Address: "10.0.0.2"}}, nil),
		FailureDomain: change(r, "b", ""), WantedFailureDomain: change(r, "c", ""),
		ObservedGeneration: change(r, int64(8), 0), LastUpdated: times(r),
		DrainStarted: times(r), VolumeDetachStarted: times(r), FailureReason: change(r, "FR2", ""), FailureMessage: change(r, "FM2", ""),
		CertificatesExpire: times(r),
	}
	u.Conditions, u.RemoveConditions = conditionUpdate(r)
	return u
}

func times(r chooser) contract.Change[time.Time] {
	return change(r, noon().Add(123456789), noon().In(time.FixedZone("x", 3600)), time.Time{})
}
