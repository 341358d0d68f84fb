// Command manager runs Machinist's reconcilers in a cluster with Cluster API's CRDs: it reconciles every Machine of
// cluster.x-k8s.io/v1beta2 with the installed infrastructure and bootstrap providers. With CRDs of its own, or of another system, it needs
// neither.
//
// It replaces Cluster API's own core manager: do not run both. This prints the rights that it needs:
//
//	go run ./examples/manager --print-rbac
//
// The rights depend on the other flags, so add those to the command. They are exact, which an end-to-end test checks, and narrower
// with the resources of the providers (--provider-resources). The users of workload clusters' kubeconfigs need the rights that
// --print-node-rbac prints, in their clusters. At its start the manager asks the API server for each right on a resource that is named, and
// ends with an error that names up to eight resources with missing ones.
//
// --help lists all flags, METRICS.md has the metrics and who may read them, REASONS.md what conditions and events mean and what to do
// about them, and MANAGERS.md what to know about several managers. Package
// options has the flags as a struct for programs that embed the reconcilers. --config reads flags from a file. With --namespace the manager
// reconciles and caches what is in some namespaces only, so that several managers can share a cluster.
//
// Nodes are drained as Cluster API does it: pods may have its drain label, and MachineDrainRules apply when their
// CustomResourceDefinition exists. After the drain the manager waits for volumes.
//
// Its requests have the user agent machinist-manager, so that an audit log can separate them from others.
//
// With --api-group=machinist.dev all kinds are those of the manager's own CRDs, and Cluster API need not be installed. --install-crds
// installs them at the start, and examples/manager/api/crds.yaml is for kubectl apply -f. They have Cluster API's fields, the defaults of
// its webhooks, and rules. clusterName and references to providers are optional, so that this is a Machine where a driver makes the
// instances:
//
//	go run ./examples/manager --api-group=machinist.dev --install-crds --driver=kwok
//	echo '{apiVersion: machinist.dev/v1beta2, kind: Machine, metadata: {name: vm1}, spec: {version: v1.36.3}}' | kubectl apply -f -
//	kubectl get mma
//
// A MachineClass specifies what the driver makes, where its defaults do not fit. A Machine, or the template of a set or a deployment,
// names it as its infrastructureRef; Machines of Cluster API can do so too, where the CRD of MachineClasses is installed:
//
//	apiVersion: machinist.dev/v1beta2
//	kind: MachineClass
//	metadata: {name: small}
//	spec: {providerSpec: {cpu: "2", memory: 4Gi}}
//	---
//	apiVersion: machinist.dev/v1beta2
//	kind: Machine
//	metadata: {name: vm2}
//	spec: {infrastructureRef: {apiGroup: machinist.dev, kind: MachineClass, name: small}}
//
// A Machine whose class is missing or refused has that in its condition InfrastructureReady; a class that was refused is read again every
// 15 seconds. The Secrets of a class are read where --driver-credentials has class, and not otherwise.
//
// Machines of machinist.dev do not follow Cluster objects unless --clusters=always is given. With a driver as a step they need no bootstrap
// data. What a Machine or a template then refers to is neither read, cloned nor deleted, except for a MachineClass: of Machines of
// machinist.dev all references, and of those of Cluster API the ones to groups that begin with "infrastructure.".
//
// With --api-group=cluster.k8s.io the kinds are those of Kubermatic's machine-controller, and with --api-group=machine.sapcloud.io those of
// Gardener's machine-controller-manager, both in v1alpha1; their CRDs must be installed, and their own controller must not run. Both need
// --driver=kwok, because their Machines refer to no infrastructure objects. They have Machines, MachineSets and MachineDeployments; pools,
// health checks, Clusters and Nodes in other clusters are refused. What holds of these systems:
//
//   - Kubermatic: the driver gets spec.providerSpec.value.cloudProviderSpec. status.nodeRef, addresses, conditions, errorReason and
//     errorMessage are written as its controller writes them; status.phase has the states of its architecture page. A Machine with the
//     initializers annotation waits. A providerSpec.valueFrom is refused.
//   - Gardener: the driver gets the providerSpec of the MachineClass that spec.class names; Secrets of the class are read only where
//     --driver-credentials has class. The phase is in status.currentStatus, the Node in the label node. status.lastOperation is not
//     written, and the timeouts for creation and health, as well as maxEvictRetries, are not applied.
//
// State for which these CRDs have no field is in annotations of machinist.dev, so nothing depends on what they would prune.
//
// With --machinepools it also reconciles MachinePools; with --machinepool-group=machinist.dev those of its own CRDs beside the other kinds
// of Cluster API. They have a selector in their Scale, so that a HorizontalPodAutoscaler can scale them.
//
// With --machinesets and --machinedeployments it also reconciles those of Cluster API. "manager rollout" shows and changes their rollouts,
// as kubectl rollout does for Deployments.
//
// "manager describe machine NAME" explains what a Machine waits for, since when, and what a person can do. "manager orphans" lists the
// instances of a driver that have no Machine. Each command has --help and -o json.
//
// With --machinehealthchecks it also reconciles MachineHealthChecks: it marks unhealthy Machines for their owners, or has the objects
// remediate them that templates make. Those of machinist.dev check the Machines of Kubermatic and Gardener, which have no such kind.
//
// With --driver=kwok the manager makes Nodes that kwok simulates, in place of the infrastructure objects of all Machines, or with
// --driver-as=inframachine as the infrastructure provider of KwokMachines. Other flags give the driver the habits of a cloud: latency, boot
// time, a quota, a rate limit, late reads, slow deletion and lost answers. The Nodes are those of this cluster or, with
// --driver-kubeconfig, of another one.
//
// The driver has the credentials of the manager, or with --driver-credentials a token of its own: from a Secret, the environment or a
// metadata service, the first that exists, or from the Secret of a class. A token is read for each call, so it can be replaced at any time.
// A Machine whose token is missing or refused names the place in its condition InfrastructureReady, and is tried again within ten minutes.
// --print-rbac grants to get that one Secret, and with class those of the namespaces. The token's user needs the rights on Nodes, which the
// manager then does not.
//
// # Install
//
// A chart and a base for kustomize are in examples/manager/deploy, whose documentation describes how they are made; the image is built from
// examples/manager/Containerfile. Take one of:
//
//	helm install machinist-manager examples/manager/deploy/chart --namespace machinist-system --create-namespace
//	kubectl apply --server-side -k examples/manager/deploy/base
//
// # Taking a fleet over
//
// A fleet of Machines, MachineSets and MachineDeployments that Cluster API v1.13 has reconciled needs no preparation: stop Cluster API's
// core manager and start this one, with the flags of all kinds that the fleet has. Ours writes annotations of machinist.dev to Machines,
// MachineSets and MachineDeployments, and nothing else: two patches a Machine, beside their status. Cluster API's manager can have the
// fleet back in the same way. It copies the annotations of a MachineDeployment to its MachineSets, among them the creation ledger, in
// which this manager records what it is about to create; a MachineSet that has the ledger of another object gets a new one. Clusters and
// their control planes still need Cluster API's controllers: without them, write what they report to the status of a Cluster. End-to-end
// tests show both directions, and that clusterctl moves a Cluster between two control planes on which this manager and its provider run:
// no Machine or Node is made or deleted.
//
// # Limits
//
// It reconciles only Machines and the kinds that flags add. It changes Nodes of its own cluster or, with --workload-clusters, of the
// clusters of the Machines. It reads Clusters (--clusters), and does not reconcile Clusters or their control planes. The condition UpToDate
// of Machines is that of their owner: with --machinedeployments it is set here. It serves no webhooks.
package main
