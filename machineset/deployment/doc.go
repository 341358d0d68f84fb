// Package deployment reconciles MachineDeployments: it brings the Machines of a deployment from one template to the next, through one
// MachineSet for each template.
//
// # A pass
//
// A pass reads the MachineSets of a deployment and their Machines, and hands them to rollout.Plan, which decides without a client. The
// steps carry the plan out in this order: marks on the Machines that are to go, the replicas of MachineSets, and new and old MachineSets
// themselves. See Steps.
//
// # Nothing twice, nothing too many
//
//   - A new MachineSet is created through the creation ledger of package children, as MachineSets create their Machines: by name, with the
//     owner and a slot, so that a lost answer or a second leader makes no second one.
//   - The replicas of a MachineSet are written on the version that was read. A pass whose caches are behind waits, and so does one that
//     could not write what StepSync has for a MachineSet: it may have other replicas than the cache shows, by a request whose answer was
//     lost. A refusal, as by an admission webhook, delays nothing.
//   - Before a MachineSet shrinks, the Machines that the plan has chosen are marked with scale.DeleteAnnotation and the identity of the
//     deployment, unless all of them are alike. The MachineSet deletes marked Machines first, whatever its own cache shows. Marks that a
//     plan no longer needs are removed. Marks of others, such as cluster-autoscaler, are those of scale.Marks.
//   - Before MachineSets are created or scaled, the API server is asked whether the cache shows all of them: once in the life of a process,
//     again when one is missing, also one that was being deleted, because it may have Machines, and again when another process has written
//     the ledger. One that the cache leaves out is named by the condition RollingOut, and the deployment creates and scales none. It asks
//     again after a minute.
//   - Before a MachineSet shrinks of which the cache shows fewer Machines than it has replicas, and before one grows beside such a
//     MachineSet in deletion, the API server is asked for its Machines: a cache that is narrowed by labels, fields or namespaces leaves
//     some out. The condition RollingOut then names one of them, and the deployment scales no MachineSet. It asks again after a minute.
//     The question does not cover other MachineSets. Where the cache leaves out Machines of one that are being deleted, or that it has
//     beyond its replicas, the deployment can exceed maxSurge by their number until they are gone.
//   - A MachineSet says with MadeFromAnnotation what it was made from. When two of them do not keep that, as with a webhook that changes
//     MachineSets, no more are made.
//   - A MachineSet that is made when the time in spec.rollout.after has come says so with rollout.MadeForAnnotation: the clock of the API
//     server, which dates it, may be behind. So there is one MachineSet for each time.
//   - An old MachineSet beyond the history limit is deleted with its UID as a precondition, when it has no Machines and wants none, and
//     only while the API server has it as it was read. Nothing is deleted while something holds the deployment.
//
// # Updates in place
//
// A deployment with the rollout type contract.RolloutInPlace keeps its Machines. The update itself is done by an update hook: a step of the
// reconciler of Machines, or another controller. It waits for Machines whose contract.InPlaceStateAnnotation is contract.InPlaceSelected,
// brings them, with their spec, to the template of the MachineSet that contract.InPlaceSetAnnotation names, and writes
// contract.InPlaceUpdated or contract.InPlaceFailed in the annotation's place. With contract.OrchestrationManual, a user writes
// contract.InPlaceSelected on candidates. An updated Machine moves to the new MachineSet in one write of its owner and its labels; the
// MachineSet counts it when its replicas say so, see scale.Received. Where MaxSurge is not 0, that many Machines are replaced.
//
// # Remediation
//
// MachineSets replace the Machines that a health check has marked. A deployment tells them with scale.LimitsAnnotation how many at once,
// and how many available ones: none while it rolls out, when it counts on all of them, and afterwards as many as may be unavailable.
// Outdated MachineSets replace none. What a MachineSet has recorded as to be replaced does not count as available for the rollout.
//
// # Cost
//
// A rollout goes in rounds, and a round costs the same for one Machine as for many: two writes of replicas, of the new MachineSet and of
// the old one; two of the ledger of the new one; and two reads of the old one, of itself and of its Machines, before it deletes. In
// addition there are up to four events, and at most one status of the deployment and of each MachineSet in Options.StatusDelay. With a
// maxSurge of a tenth there are ten rounds, and more where Machines do not become available at the same time. Each Machine costs what
// package machineset and package machine say, and two writes before it goes: its condition UpToDate, and the taint of its Node for an
// outdated revision.
//
// # Limits
//
// Gardener's label freeze is read. Its annotations that trigger a deletion or select Nodes for an update in place are not.
// A deployment whose spec.replicas is not set keeps its Machines as they are.
//
// # Differences from Cluster API
//
// Cluster API has removed the history limit, rollback and the progress deadline; they work here. spec.rollout.after takes effect when its
// time comes, not with the next event. A MachineSet that shrinks is told which Machines go. Commands does what kubectl rollout does for
// Deployments.
package deployment
