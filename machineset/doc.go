// Package machineset keeps as many Machines of each set as the set asks for, and never makes two machines for one of them.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager. [ClusterAPI] names Cluster API's kinds; other kinds of sets and Machines come
// with a contract.MachineMaker. A set and a Machine meet only through objects: whoever leads Machines through their lives,
// package machine or another program, takes over what a set has made for them. In one manager, that is
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
// A pass reads the set, its Cluster, its templates and its Machines, claims Machines as a ReplicaSet does, decides in pure
// functions (package scale), acts in thin ones, and writes the status in one request. Nothing is decided after an observation that
// failed, and nothing on caches that are too old: the pass then waits for their events. Templates and preflight checks that could not
// be read keep a set from creating only. Names are taken in the set's creation ledger, an annotation that is written on the
// condition that nobody has changed the set, before anything is made under them.
//
// Of a Machine, the bootstrap object is made first, then the infrastructure object, then the Machine itself, all under one name and
// stamped with the set's UID and a slot. What goes wrong in between is resumed under the same names, after a second at first and after
// up to a minute while it goes wrong again, or at once when the set is changed; what is given up is cleaned up. A
// slot of which part was made from another template is given up, once the API server has said that its Machine does not exist.
// Something that exists
// already counts as the set's own only by its stamp, and only while it is not being deleted. Otherwise its slot is never used.
//
// A Machine whose deletion, adoption or creation is refused does not hold up the others: they come first the next time, a pass goes
// on for up to eight failures (one for creations), and no other Machine is deleted in its place. The conditions ScalingDown and Deleting
// say why a Machine stays, and ScalingUp why one is not adopted, during which nothing is created. A selector that cannot be read keeps a
// set from creating, adopting and releasing, and a deletion order from deleting, until the set itself is deleted.
//
// Before Machines are deleted, the API server itself is asked once whether the set still wants that, whether as many are there as the
// cache says, and whether the same ones are marked to go first.
//
// # What the promise rests on
//
// A set makes no second machine, whoever leads it and however late its caches are, as long as the API server answers for what is
// there. The ledger and the cache are what others can take away, so neither is enough:
//
//   - New slots are taken only in a ledger that has not changed since it was read, and what exists under the name of a slot is judged
//     by its stamp. So two processes never make a Machine twice for one slot.
//   - Before a process takes slots of a set for the first time, the API server itself is asked once for the metadata of all Machines in
//     the namespace. It is asked again when the set has no ledger of its own, or an earlier one; when a Machine that was created or seen
//     has vanished without a deletion that was seen or asked for; and, once for a ledger, when a cache that cannot say what it has seen, as
//     one with Cache.DefaultNamespaces, shows nothing that is as young as what was created last.
//   - A Machine that the API server names and the cache does not show keeps the set from creating. A cache that has yet to see what was
//     created is waited for, for 30 s without a word. One that has seen it and does not show it leaves it out, and the condition ScalingUp
//     says so with the reason [ReasonMachinesNotShown] and the name: the cache selects by labels, fields or namespaces that the Machine
//     does not have, or a webhook takes its labels away.
//
// What was lost is written again: a set that has Machines and no ledger goes on behind all slots that can have been taken. Without any
// Machine, and with a status that tells of none, a ledger that is lost leaves no trace: the set begins with the first slot again, and
// names of Machines that are gone come back.
//
// # Restored and moved sets
//
// A backup may bring a set before its Machines. Such a set creates nothing until as many Machines as it wants are there, adopted or its
// own, or until a person sets [RestoredAnnotation] to the set's UID; the condition ScalingUp has the reason
// [ReasonMachinesNotRestored] and says what to set. That holds for a copy, too, whose annotations were copied. What tells it from a set
// whose Machines were all deleted is the ledger:
//
//	ledger                     Machines   status.replicas   the set
//	its own                    any        whatever          creates what is missing
//	missing, or another set's  some       any               creates what is missing, behind a gap of slots
//	another set's              no         whatever          waits for its Machines
//	missing                    no         more than 0       waits for its Machines
//	missing                    no         0, or missing     creates: it is new
//
// Another set's is a ledger with another UID that has taken slots, and Machines are those that the set controls by its present UID. A set
// of another program, which keeps no ledger, is not known for a restored one when its status is not restored: restore such sets
// paused.
//
// # In place
//
// Labels and annotations of the template, limits, readiness gates, minReadySeconds and taints reach Machines that exist, labels and
// annotations also what they refer to. What a set gave a Machine is recorded on it ([GivenAnnotation]), so that what the
// template no longer says is removed and what somebody else said stays. A list of readiness gates or taints is the set's as a whole,
// as long as the template has one.
//
// # Deletion
//
// The Machines of a set in deletion are deleted too, in the foreground and in the background alike, and the set stays until they are
// gone. With --cascade=orphan they stay, without an owner.
//
// # Conditions
//
// Types are those of Cluster API's v1beta2 MachineSet: MachinesReady, MachinesUpToDate, ScalingUp, ScalingDown, Remediating, Deleting, and
// Paused. So are reasons and messages of what Cluster API says too, preflight checks aside: their reasons are the names of the checks, and
// their messages name versions in words of their own. Where something holds a set that Cluster API does not know, or only logs, ScalingUp
// and ScalingDown have its reason, such as MaxUnavailable.
// ScalingUp says what keeps a set from creating: a template that does not exist, a preflight
// check, a selector that would not match. Preflight checks look at what the Cluster names as its control plane, where sets have
// Clusters; those about topologies are made with Ports.PreflightOf only. Remediating only tells what health checks have said:
// nothing is remediated here. MachinesUpToDate and upToDateReplicas sum up the condition UpToDate of the Machines, which package
// machine sets with its Ports.RolloutOf, for sets of a MachineDeployment: without one, the number stays 0.
//
// # What differs from Cluster API
//
// A Machine whose labels somebody changes is let go, and not merely no longer counted. A set does not write its own
// spec: a missing selector and the label of the cluster count as if they were there. Creation and deletion begin with one and
// double. Of many Machines that are created at once, one event tells. In-place updates, which move Machines between sets, are not made.
//
// # Limits
//
// A process that is stopped after it wrote the ledger, and goes on when another one has made the Machine and somebody else has
// deleted it to the end, makes it again: elect a leader. So does a creation that the API server carries out only after its answer got lost
// and its slot was given up. [Options].PassLimit bounds for how long a pass creates.
package machineset
