// Package deployment reconciles MachineDeployments: it brings the Machines of a deployment from one template to the next, through one
// MachineSet for each template. [Commands] does what kubectl rollout does for Deployments.
//
//	kinds, err := contract.ClusterAPI(contract.V1Beta2)
//	_, err = deployment.SetupWithManager(ctx, mgr, kinds, deployment.Options{})
//
// A pass reads the MachineSets of a deployment and their Machines as the input of rollout.Plan, which decides without a client. The steps
// ([Steps]) carry out the plan: marks on Machines to delete, replicas of MachineSets, and new and old MachineSets.
//
// # Nothing twice, nothing too many
//
//   - A new MachineSet is created through a creation ledger, as Machines are. scale.Stamp identifies its source: if two
//     MachineSets do not store it, as with a webhook that changes MachineSets, no more are created. The stamp includes the time in
//     spec.rollout.after, if there is one, and there is one MachineSet for each time.
//   - The replicas of a MachineSet are written on the version that was read. A pass whose caches are behind waits, and so does a pass that
//     could not write the changes of StepSync to a MachineSet. A rejection, as by an admission webhook, delays nothing.
//   - Before a MachineSet shrinks, the Machines that the plan has chosen are marked with scale.DeleteAnnotation and the identity of the
//     deployment, unless all are deleted; the MachineSet deletes marked Machines first. Marks that no plan needs are removed.
//   - Before a plan is carried out, the API server confirms that the cache has all MachineSets and their Machines, with their marks. The
//     condition RollingOut names missing objects, and the deployment scales nothing.
//   - An old MachineSet beyond the history limit is deleted by its UID when it has no Machines and wants none, and only in the version that
//     was read.
//
// # Updates in place
//
// A deployment with the rollout type contract.RolloutInPlace does not replace its Machines. The update itself is done by an update hook: a
// step of the reconciler of Machines, or another controller. It waits for Machines whose contract.InPlaceAnnotation is
// contract.InPlaceSelected with the name of a MachineSet, as in selected/workers-abc, updates them, with their spec, to the template of
// that MachineSet, and writes contract.InPlaceUpdated or contract.InPlaceFailed with the same name. With contract.OrchestrationManual, a
// user writes contract.InPlaceSelected on candidates, with the name that they have. An updated Machine moves to the new MachineSet in one
// write of its owner and its labels; the MachineSet counts it when its replicas include it, see scale.Received. If MaxSurge is not 0, that
// many Machines are replaced.
//
// # Up to date
//
// The deployment sets the condition UpToDate of its Machines: Machines of a MachineSet that the rollout replaces are not up to date, nor is
// a Machine while it is updated in place. It does not change the condition on Machines of another program's deployments.
//
// # Remediation
//
// MachineSets replace the Machines that a health check has marked. A deployment limits with scale.LimitsAnnotation how many at once, and
// how many available ones: none during a rollout, and afterwards as many as may be unavailable. Outdated MachineSets replace none. Machines
// that a MachineSet has recorded for replacement do not count as available for the rollout.
//
// # Limits
//
// If the cache lacks Machines of a MachineSet that are being deleted, or that are beyond its replicas, the deployment can exceed maxSurge
// by their number until they are gone. A deployment without spec.replicas does not change its Machines. Gardener's label freeze is
// supported; its annotations that trigger a deletion or select Nodes for an update in place are not. Rollback, which Cluster API has
// removed, is supported, as are the history limit and the progress deadline of kinds with fields for them. spec.rollout.after takes effect
// when its time comes.
package deployment
