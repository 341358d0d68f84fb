// Package deployment reconciles MachineDeployments: it brings the Machines of a deployment from one template to the next, through one
// MachineSet for each template. [Commands] does what kubectl rollout does for Deployments.
//
//	kinds, err := contract.ClusterAPI(contract.V1Beta2)
//	_, err = deployment.SetupWithManager(ctx, mgr, kinds, deployment.Options{})
//
// A pass reads the MachineSets of a deployment and their Machines, and hands them to rollout.Plan, which decides without a client. The
// steps ([Steps]) carry the plan out: marks on the Machines that are to go, replicas of MachineSets, and new and old MachineSets.
//
// # Nothing twice, nothing too many
//
//   - A new MachineSet is created through a creation ledger, as MachineSets create their Machines. scale.Stamp has what it was
//     made from: when two do not keep that, as with a webhook that changes MachineSets, no more are made. One that is made for the time in
//     spec.rollout.after has that time, and there is one for each time.
//   - The replicas of a MachineSet are written on the version that was read. A pass whose caches are behind waits, and so does one that
//     could not write what StepSync has for a MachineSet. A refusal, as by an admission webhook, delays nothing.
//   - Before a MachineSet shrinks, the Machines that the plan has chosen are marked with scale.DeleteAnnotation and the identity of the
//     deployment, unless all go; the MachineSet deletes marked Machines first. Marks that no plan needs are removed.
//   - Before a plan is carried out, the API server is asked whether the cache shows all MachineSets and their Machines, with the marks
//     that these have. What the cache leaves out is named by the condition RollingOut, and the deployment scales nothing.
//   - An old MachineSet beyond the history limit is deleted by its UID, when it has no Machines and wants none, and only while the API
//     server has it as it was read.
//
// # Updates in place
//
// A deployment with the rollout type contract.RolloutInPlace keeps its Machines. The update itself is done by an update hook: a step of the
// reconciler of Machines, or another controller. It waits for Machines whose contract.InPlaceAnnotation is contract.InPlaceSelected with
// the name of a MachineSet, as in selected/workers-abc, brings them, with their spec, to the template of that MachineSet, and writes
// contract.InPlaceUpdated or contract.InPlaceFailed with the same name. With contract.OrchestrationManual, a user writes
// contract.InPlaceSelected on candidates, with the name that they have. An updated Machine moves to the new MachineSet in one write of
// its owner and its labels; the MachineSet counts it when its replicas say so, see scale.Received. Where MaxSurge is not 0, that many
// Machines are replaced.
//
// # Up to date
//
// The deployment sets the condition UpToDate of its Machines: those of a MachineSet that the rollout replaces are not up to date, and
// neither is a Machine while it is updated in place. Machines of another program's deployments have what that program sets.
//
// # Remediation
//
// MachineSets replace the Machines that a health check has marked. A deployment tells them with scale.LimitsAnnotation how many at once,
// and how many available ones: none while it rolls out, and afterwards as many as may be unavailable. Outdated MachineSets replace none.
// What a MachineSet has recorded as to be replaced does not count as available for the rollout.
//
// # Limits
//
// Where the cache leaves out Machines of a MachineSet that are being deleted, or that it has beyond its replicas, the deployment can exceed
// maxSurge by their number until they are gone. A deployment whose spec.replicas is not set keeps its Machines as they are. Gardener's
// label freeze is read; its annotations that trigger a deletion or select Nodes for an update in place are not. Cluster API has removed
// rollback, which works here, as do the history limit and the progress deadline of the kinds that have fields for them. spec.rollout.after
// takes effect when its time comes.
package deployment
