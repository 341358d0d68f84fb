// Package machineset keeps as many Machines of each set as the set asks for, and creates no second one when answers are lost, caches lag or
// two processes act.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager. [ClusterAPI] names Cluster API's kinds; other kinds of sets and Machines need a
// contract.MachineMaker. A set and its Machines only interact through objects: package machine, or another program, reconciles the
// Machines that a set creates. In one manager, that is
//
//	kinds, err := machineset.ClusterAPI(contract.V1Beta2)
//	_, err = machine.SetupWithManager(ctx, mgr, kinds.Machine, machine.Options{})
//	_, err = machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{})
//
// The CRDs of sets, Machines, templates and what is cloned from them must be installed before. As in Cluster API, the kind of a
// template is that of its clones with Template behind it, and the clones' spec is at spec.template.spec. Package fake runs it all
// in a test.
//
// # How a pass works
//
// A pass reads the set, its Cluster, its templates and its Machines, claims Machines as a ReplicaSet does, decides in pure functions
// (package scale), acts, and writes the status in one request. It decides nothing after a failed observation, and nothing on caches that
// are too old: the pass then waits for their events. Templates and preflight checks that could not be read only keep a set from creating.
// Names are reserved in the set's creation ledger, an annotation that is written with the resourceVersion of the set, before objects are
// created under them.
//
// Of a Machine, the bootstrap object is created first, then the infrastructure object, then the Machine, all under one name and annotated
// with the set's UID and a slot. A failed creation is resumed under the same names, after a second at first and after up to a minute while
// it fails again, or at once when the set is changed; the objects of an abandoned slot are deleted. A slot with an object from another
// template is abandoned, once the API server has confirmed that its Machine does not exist. An existing object counts as the set's own
// only with its annotations, and only while it is not being deleted. Otherwise its slot is never used.
//
// A Machine whose deletion, adoption or creation is rejected does not delay the others: those come first the next time, a pass continues
// for up to eight failures (one for creations), and no other Machine is deleted in its place. The conditions ScalingDown and Deleting say
// why a Machine stays, and ScalingUp why one is not adopted; until it is, the set creates nothing. A selector that cannot be read keeps a
// set from creating, adopting and releasing, and an invalid deletion order from deleting, until the set itself is deleted.
//
// Before Machines are deleted, the API server is asked once whether the set still has this number of replicas, whether as many Machines
// exist as in the cache, and whether the same ones are marked to be deleted first.
//
// # Steps
//
// A pass is a list of steps ([Steps]), as that of a Machine: Options.Steps takes a list with steps of your own, which pass.InsertBefore and
// its siblings make. A step reads and changes the [Scope], which embeds that of package contract/pass; [Scope.Hold] keeps the set from
// creating. New rejects a list that is not safe.
//
// # How a second instance is prevented
//
// A set creates no second instance for a Machine, however late its caches are and in every process, as long as the API server returns the
// objects that exist; Limits names two exceptions. Others can remove entries from the ledger and from the cache, so neither is enough:
//
//   - New slots are reserved only in a ledger that has not changed since it was read, and an object that exists under the name of a slot is
//     judged by its annotations. So two processes never create a Machine twice for one slot.
//   - Before a process reserves slots of a set for the first time, the API server is asked once for the metadata of all Machines in the
//     namespace. It is asked again when the set has no ledger of its own, or an earlier one; when a Machine that was created or seen is
//     gone without a deletion that was seen or requested; and, once for a ledger, when a cache that cannot say what it has seen, as with
//     Cache.DefaultNamespaces, shows nothing that is as young as what was created last.
//   - A Machine that the API server has and the cache does not show keeps the set from creating. For 30 s the set waits for the cache, and
//     changes no condition. When the cache has seen the Machine and does not show it, the condition ScalingUp has the reason
//     [ReasonMachinesNotShown] and its name: the cache selects by labels, fields or namespaces that the Machine does not have, or a webhook
//     removes its labels. If the cache showed a Machine in deletion and no longer shows it, the set counts it as deleted, and creates its
//     replacement at once.
//
// A lost ledger is written again: a set that has Machines and no ledger continues behind all slots that can have been reserved. Without any
// Machine, and with a status that counts none, a lost ledger leaves no trace: the set begins with the first slot again, and reuses names of
// Machines that are gone.
//
// # Restored and moved sets
//
// A restore from a backup may create a set before its Machines. Such a set creates nothing until it controls or has adopted as many
// Machines as it wants, or until a person sets [RestoredAnnotation] to the set's UID; the condition ScalingUp has the reason
// [ReasonMachinesNotRestored] and says what to set. The same applies to a copy of a set with its annotations. The ledger distinguishes it
// from a set whose Machines were all deleted:
//
//	ledger                     Machines   status.replicas   the set
//	its own                    any        whatever          creates what is missing
//	missing, or another set's  some       any               creates what is missing, behind a gap of slots
//	another set's              no         whatever          waits for its Machines
//	missing                    no         more than 0       waits for its Machines
//	missing                    no         0, or missing     creates: it is new
//
// "Another set's" is a ledger with another UID and reserved slots, and "Machines" are those that the set controls by its present UID. A set
// of another program, which has no ledger, is not recognized as a restored one when its status is not restored: restore such sets paused.
//
// # In place
//
// Labels and annotations of the template, limits, readiness gates, minReadySeconds and taints are copied to existing Machines, labels and
// annotations also to the objects that they reference. The values that a set gave a Machine are recorded on it ([GivenAnnotation]), so
// that values that the template no longer has are removed and values of other writers stay. A list of readiness gates or taints belongs to
// the set as a whole, as long as the template has one.
//
// # Remediation
//
// A Machine whose conditions HealthCheckSucceeded and OwnerRemediated are False was marked by a health check: the set deletes it, and
// creates another one. Those with scale.RemediateAnnotation go first, then the newest ones. How many go at once, and how many available
// ones, is what the deployment of the set says (scale.LimitsAnnotation); a set that stands alone has no limit, and one of a deployment
// that says nothing replaces one Machine at a time, and none that is available. The condition OwnerRemediated of a Machine that waits says
// why, and until when, and Remediating of the set repeats it. Nothing is replaced by a set that creates nothing: one that is held, paused
// or outdated, whose templates do not exist, whose last creation was refused, or whose workload cluster does not answer.
//
// A Machine that was made after the first replacement and is marked too waits, a minute at first, twice as long each time and up to a day,
// unless a Machine that was made since the last replacement was available for an hour: a broken template does not cost one machine after
// the other. Machines that never got a Node count. What is replaced, and how often that was, is in an annotation of the set
// (scale.ReplacementsAnnotation), which is written with the resourceVersion of the set before a Machine says that it is deleted
// (MachineDeleting) and is: a process that is stopped in between, or whose caches are behind, replaces no other Machine. A Machine that
// recovers meanwhile stays.
//
// # Cost
//
// A new Machine costs three requests, with a bootstrap object and an infrastructure object, and an old one costs one. Each time that a set
// creates Machines, however many, it writes its ledger twice: before, and with the created ones taken out again at once, because a Machine
// that is deleted while its slot is reserved would be created again. Each time that it deletes some, it reads itself and the metadata of
// the Machines that it selects from the API server: caches may be older than a change of the replicas. Each time there is one event. The
// status costs at most one write in Options.StatusDelay while something changes.
//
// # Deletion
//
// The Machines of a set in deletion are deleted too, in the foreground and in the background alike, and the set stays until they are
// gone. With --cascade=orphan they stay, without an owner.
//
// # Conditions
//
// The conditions are those of Cluster API's v1beta2 MachineSet: MachinesReady, MachinesUpToDate, ScalingUp, ScalingDown, Remediating,
// Deleting, and Paused, with its reasons and messages, except for preflight checks: their reasons are the names of the checks. Where
// something that Cluster API does not have, or only logs, holds a set, ScalingUp and ScalingDown have its reason, such as Frozen.
//
// ScalingUp says what keeps a set from creating: a template that does not exist, a preflight check, a selector that would not match.
// Preflight checks read the control plane of the Cluster, where sets have Clusters; the version of a topology is not looked at.
// Remediating says which Machines a health check has marked, and what their set does about them. MachinesUpToDate and upToDateReplicas
// summarize the condition UpToDate of the Machines, which package machine sets with its Ports.RolloutOf, for sets of a MachineDeployment:
// without that port, the number stays 0.
//
// # What differs from Cluster API
//
// A Machine whose labels were changed is released; Cluster API only stops to count it. A set does not write its own spec: it
// treats a missing selector and the label of the cluster as if they were set. Creation and deletion begin with one and double.
// One event reports many Machines that are created at once. Package deployment moves Machines between sets for updates in place; a set
// counts a Machine that it received when its replicas include it (scale.Received).
//
// # Limits
//
// A process that is stopped after it wrote the ledger, and continues when another one has created the Machine and the Machine was deleted
// again, creates it a second time: use leader election. The same happens when the API server executes a creation only after its answer got
// lost and its slot was abandoned. A pass creates Machines for a minute at most.
package machineset
