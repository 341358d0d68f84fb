// Package machine leads a Machine through its life: bootstrap data, infrastructure, Node; and at the end drain, clean-up and
// the Node's deletion.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager. A [Reconciler] is an ordered list of [Step]s over one [Scope]; take
// [Steps], change it with [InsertBefore], [InsertAfter], [Replace] and [Remove], and hand it to [Options]. [Reconciler.ReconcileObject]
// makes one pass inside a loop of your own, and [Reconciler.Forget] ends what it remembers of a Machine. The CRD of the Machines must be installed before.
//
// Every pass runs all the steps that are for this part of the Machine's life, and a pass follows every event: a step in front of
// [StepDrain] runs for as long as the deletion lasts, also when the drain is over (then State.DrainedNode is the Node's UID). What
// shall happen once asks for what it has made, or remembers it in a condition ([Scope.Assert]).
//
// No step behind [StepFinalizer] runs before the finalizer is stored, those that decide about the Machine alone ([Step].MachineOnly) aside:
// what makes something belongs behind it. [New] refuses a list that cannot be safe, and says what to do.
//
// [StepBootstrap], [StepInfrastructure] and [StepNode] run in both parts of the life, and what takes their place does too: a deletion goes
// by what these steps found. The documentation of [Steps] says what each puts into the Scope.
//
// A Machine that refers to no bootstrap configuration and no infrastructure object needs [StepBootstrap] and [StepInfrastructure]
// removed, and one step in front of [StepNode] that makes or finds the machine and calls [Scope.SetProviderID]: the Node whose
// spec.providerID is the same is the Machine's. Once the machine is there, the step calls [Scope.SetInfrastructureReady] too, in every
// pass unless the type keeps it: without it, Cluster API's phase stays Provisioned, and InfrastructureReady says so. What that step
// makes, a step in front of [StepDeleteInfrastructure], or in its place, takes away. A step that is [InRunning] alone does not run in
// a deletion: so a type of your own keeps the provider ID, or its read function makes it of something else, and it keeps the Node with
// its UID; contract.CheckKind says in a test what it forgets, and [New] refuses a kind that forgets what the steps need.
// examples/embed does it all, with a type, phases and conditions of its own, in under a hundred lines.
//
// The phase is Cluster API's by default. [PhaseStep] computes another dialect's, or that of a table of your own.
//
// Package fake runs all of this in a test, without a cluster: its documentation lists what a test needs.
//
// # How a pass works
//
// A pass reads the Machine and what it refers to, decides in pure functions, acts on others in thin ones, and writes the
// Machine at the end: metadata and spec first, then status on top of what the server returned. What says what it said
// before is not written. Patches are minimal merge patches; each carries metadata.uid, and one that replaces a list
// carries the resourceVersion too, so that a change of somebody else is never lost: the pass is decided again.
//
// A status on the way somewhere is written only when it has lasted for Options.StatusDelay, so that stages which follow
// each other at once cost one write. What a step needs stored (a [Result] with Checkpoint) and the status of a ready Machine
// are written at once. While more statuses wait than can be written, because the API server or the client's limits are slow, they
// wait for up to a minute, so that they do not hold up the work that they tell of.
//
// # Where Nodes are
//
// SetupWithManager looks for Nodes in the manager's own cluster. With [Ports].NodesOf, each Machine's Node is in the workload
// cluster that the Machine names, and is found, watched, written and drained there alone: Nodes of two clusters may have the
// same names and provider IDs. package noderef/cluster connects; [SetupWorkload] and [NodesOf] join the two. A cluster that is
// not connected, or whose Nodes are not listed yet, is unread: NodeReady and NodeHealthy become Unknown (ConnectionDown,
// InspectionFailed), those of a Machine with a Node only after Options.ConnectionGrace; bootstrap data and infrastructure go
// on; in a deletion, drain and Node deletion wait, and say for what.
// BootstrapConfigReady and InfrastructureReady outlive a list that has not come back in the same way.
//
// # Clusters
//
// Machines have no Cluster objects unless Ports.ClusterOf says how they are read; external.Clusters reads those of Cluster API:
//
//	clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{})
//	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
//
// A manager that watches Clusters of a Go type already shares that informer when external.ClusterOptions.Object names the type.
//
// A Machine of a paused Cluster gets its finalizer and is left alone otherwise, also while it is being deleted. A Cluster that was not
// read may be paused, so until it is read a pass acts on nothing, and changes no condition. Trouble that a person can mend, and
// a Cluster that does not exist, stand in the condition Paused, as Unknown: whether the Machine is to be left alone cannot be
// known, so it is. A Machine in deletion goes on without its Cluster. A Machine that nobody controls, and that names no set,
// pool or control plane, gets its Cluster as an owner. The Cluster's control plane, its object and how many of its Machines are
// left, is looked at for Machines in deletion only, and wakes only them; other Machines wake when their Cluster is paused, is
// deleted, is initialised or gets another control plane, and sleep through the rest.
//
// With Options.WatchFilter, Machines of other controllers cost nothing but their place in the cache. They still count as Machines of a
// control plane, and when they name the same Node. Where the cache has no Machine of a control plane that stays, as where its label selector
// leaves them out, the API server is asked, because the Node of a Cluster that has none is not drained.
//
// # Deletion
//
// A Machine in deletion goes through these stages, and says in the condition Deleting which one it is in: pre-drain hooks, drain,
// volumes, pre-terminate hooks, infrastructure, bootstrap data, Node, finalizer. Stages that follow each other at once cost one
// pass and one write. Hooks are looked at in every pass; drain and volumes are done once, recorded by the Node's UID, and not
// begun again when pre-terminate hooks were waited for, because those may take the cluster's API server away. So it is with what
// Cluster API up to v1.13 has done of the same deletion before this controller took over, as its conditions DrainingSucceeded,
// VolumeDetachSucceeded and PreTerminateDeleteHookSucceeded tell; those of typed kinds are not read, and their Nodes are drained again.
//
// What people disagree about is a value each in [Policy], with the default beside it:
//
//   - [Policy].NodeCare ([DefaultNodeCare]): whether the Node is drained and deleted at all. It is left as it is when its Cluster
//     or its control plane goes too, or has no other control plane Machine; then pre-drain hooks, drain, volumes and the Node's deletion
//     are left out, and everything else is done. What could not be read is waited for, and is not "no". Machines of a control plane are
//     counted where they are of the Cluster's API group, or of this kind. Those of a Cluster that has others are not, which is not
//     "none": the Node is drained and deleted while the Cluster stays. The reason is a [CareReason].
//   - [Policy].Limits ([DefaultLimits]): how long a stage may take. Starts are recorded when a stage begins, also while its Nodes
//     cannot be read, and a limit that is set or changed later counts from there. What is left out is told in an event, once.
//   - [Policy].DrainPolicy ([drain.DefaultPolicy]): how a drain escalates and when it is given up. By default it evicts for ever; when the
//     kubelet has not answered for five minutes, grace periods are cut to a second, and pods that do not end are not waited for.
//   - [Policy].Unreachable ([DefaultUnreachable]): whether a stage whose Nodes cannot be read is waited for. By default it is,
//     unless the Cluster is gone or going, the machine is gone or off, or a limit that somebody set is reached.
//
// A Node that was recorded or matched, and is not drained or not deleted, is never left in silence: an event tells it once with the reason
// ([EventNodeNotDrained], [EventNodeNotDeleted], or that of the stage whose limit was reached), and Deleting says it in a line of its own
// behind the message of the stage, for as long as the deletion lasts. A Machine that lives drops what it says of a deletion, because it comes
// from a backup that was made in the midst of one.
//
// A Machine whose Cluster object no longer exists can be deleted: infrastructure, bootstrap data and finalizer go, the Node stays
// with its cluster. A Node that became known only when its machine was going, by its provider ID, is recorded and then deleted
// like any other. A Node gets one delete request, and nobody waits for it in a worker.
//
// # Volumes and drain rules
//
// After the drain, volumes that are still attached to the Node are waited for, as the VolumeAttachments of the Node's cluster and
// the Node itself tell; which of them matter is said at package drain's VolumePlanner. They are listed when the first Node is
// drained or its volumes are first asked for, in a cache of their own, and the wait ends with the limit in the Machine's spec, with
// the annotation contract.ExcludeVolumeDetach, or when the kubelet has not answered for five minutes.
//
// [MachineDrainRules] is a Policy.DrainRules that has Nodes drained by Cluster API's MachineDrainRules.
//
// # Conditions
//
// Types, reasons and messages are those of Cluster API's v1beta2 Machine, so that its dashboards and tools work; trouble that it
// only logs has reasons of its own here (external.ReasonCRDNotFound and those beside it). From its first status on, a Machine that is not
// paused has
//
//   - BootstrapConfigReady and InfrastructureReady, which mirror the Ready condition of the referenced objects;
//   - NodeReady and NodeHealthy, of the Node and by [Policy].Health, or what is still waited for before there is one;
//   - Updating, by [Policy].Updating; while it is True the phase is Updating too;
//   - Deleting, which names the stage of a deletion, and Paused;
//   - Ready, which sums up Deleting, Updating, BootstrapConfigReady, InfrastructureReady, NodeHealthy, HealthCheckSucceeded if
//     there is one, and the readiness gates of the Machine: bad news first, then what is unknown. When a deletion lasts for more
//     than 15 minutes it says so, and what holds the drain up after 5.
//     A step of your own that fails keeps a Machine from becoming Ready, with reason InternalError and its first words; one that is
//     Ready stays so, and says it too. Without [StepInfrastructure], and with the default [StepPhase], InfrastructureReady says when
//     no step has called [Scope.SetInfrastructureReady];
//   - Available, when it has been ready for spec.minReadySeconds;
//   - UpToDate, when [Ports].RolloutOf finds its MachineSet and its MachineDeployment ([RolloutFromManager] looks them up). That of
//     other Machines is left to whoever sets it.
//
// An event of type Warning tells of trouble when it begins, and one of type Normal of what was done: once per transition, also when
// two conditions tell of the same.
//
// # Metrics
//
// [Metrics] is a prometheus.Collector. The caller makes it, hands it to Reconcilers and registers it; nothing registers itself:
//
//	metrics := machine.NewMetrics(machine.MetricsOptions{})
//	err := registry.Register(metrics) // controller-runtime's metrics.Registry, or any other
//	options.Metrics = metrics
//
// No label names an object, and every label has a bounded set of values: operations and steps are the names of steps; of phases and
// providers, which come from objects, 32 are told apart, and what is beyond counts as "other".
//
// Machines and replicas are counted in the cache at each scrape, without copies and without requests, in a few microseconds for
// each Machine. They are missing, rather than zero, until the cache has been read, and in a process that waits for its turn as a
// leader, so that sums over processes are right. A process acts from when its controller is started, or, in a loop of your own, from
// its first pass after IndexMachines.
//
// The time in a phase is observed when the write is accepted that stores the next phase, or removes the finalizer. It counts from
// when passes decided on the phase, also on one that was never stored because the next followed at once. Counters are of one process, as
// Prometheus expects. A process that takes over goes by what is stored: by when the object says that its phase changed. What was
// decided and not stored is lost with the process, and so is a phase of which nobody knows when it began: a time may be missing, and none
// is counted twice. Neither the phase of a Machine when nobody has set one is timed, nor one that a layout keeps in an annotation although
// status has an endpoint of its own.
//
// The metrics:
//
//	machine_controller_machines_total{controller,provider}: gauge
//		Machines that are looked after, by what provides their machine.
//	machine_controller_errors_total{controller,operation}: counter
//		Errors that are retried, by the step that failed, or read or write of the Machine itself; without conflicts.
//	machine_controller_workers_running{controller}: gauge
//		Passes over Machines that are under way.
//	machine_controller_machine_deployment_replicas{controller,state}: gauge
//		Replicas of all MachineDeployments: desired, actual, ready and available.
//	machinist_machines{controller,phase}: gauge
//		Machines that are looked after, by the phase in their status.
//	machinist_machine_phase_duration_seconds{controller,phase}: histogram
//		Time that a Machine spent in a phase, observed when it has left it.
//		Buckets: 1 2 5 10 20 30 60 120 300 600 1200 1800 3600 7200 21600 86400 604800 2592000.
//	machinist_machine_pass_duration_seconds{controller,result}: histogram
//		Time of a pass over a Machine, writes included, by how it ended: done, requeued, conflict or failed.
//		Buckets: 0.0005 0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30.
//	machinist_machine_step_duration_seconds{controller,step}: histogram
//		Time that a step took for one Machine.
//		Buckets: 0.0001 0.0005 0.001 0.005 0.01 0.05 0.1 0.5 1 5 10.
//	machinist_machine_step_results_total{controller,step,result}: counter
//		Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed.
//	machinist_machine_conflicts_total{controller,operation}: counter
//		Writes that were rejected because the object had changed since it was read, by the step, or write of the Machine itself.
//
// # Rights
//
// [PolicyRules] and [NodePolicyRules] are the RBAC rules that a Reconciler needs, as values that follow from how it is wired: the ones
// where the Machines are, the others where the Nodes are. They hold no verb that is never used; some are used only when a Node does not answer, or is not where it was.
//
// # Guarantees
//
// Unread is not absent: no stage of a deletion is skipped because something could not be read, and before a deletion goes on
// because an object is gone, the API server itself is asked, once. So it is with a recorded Node that the index does not have, by
// [Workload].APIReader, and with the Machines of a control plane. A Node is drained and deleted only while its UID and provider ID
// are the recorded ones (of a Node that a step in place of [StepNode] has matched, its UID), and never while another Machine names the same Node, unless this one alone has recorded it; an
// object that another controller owns is neither used nor deleted; every delete carries a UID precondition. No worker waits: not for an informer, not for a pod. Trouble
// that a person can mend (a CRD that does not exist, a wrong type at a contract path, an empty provider ID) is a condition
// and an event, makes no requests while it lasts, and ends by itself when it is mended.
//
// A Machine whose workload cluster cannot be reached costs no request and no pass until that changes, and holds up no other.
//
// A process never decides on a Machine older than its own last write of it, because that would repeat the write. What the API server
// accepts and does not keep, as when a mutating webhook takes the finalizer or an annotation away, is an event and a line of Ready, and is
// written again after a second, and then each time after twice as long, up to half a minute; nothing goes on without it.
//
// # Limits
//
// A Machine that has or may have a Node in a workload cluster that is gone for good waits in its deletion until its Cluster is
// deleted too, or limits are set for the stages that need the Node. status.nodeInfo is not copied from the Node.
//
// Queues are the manager's. The priority queue of controller-runtime v0.24 can hang when its manager stops
// (kubernetes-sigs/controller-runtime#3538): set Controller.UsePriorityQueue to false in the options of a manager that has to
// end cleanly.
package machine
