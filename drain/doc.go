// Package drain decides which Pods leave a Node, in which order, and why a Pod has to stay. It does not access a cluster: package
// drain/runner carries out plans.
//
// A [Planner] applies its rules to every Pod, counts the disruption budgets over all given Nodes and returns a [Plan]. [Classify] maps a
// response of the eviction endpoint to an [Outcome]. [PlanVolumes] decides which volumes the deletion of the machine waits for after the
// drain. A [Policy] is data: a grace period, when evictions turn into deletions, and when a Node counts as unreachable. [Policy.Rule] is
// the last rule of a drain.
//
// # Usage
//
// Rules are applied in the order of their slice: rules about orders first ([OneAtATimeWithVolumes], or a [Rule] of the caller), then rules
// that decide; a Policy is last. [DefaultRules] follow kubectl drain with --ignore-daemonsets, --force and --delete-emptydir-data; without
// these flags, kubectl refuses Pods that no controller creates again and Pods with local data ([KubectlRules]). [ClusterAPIRules] follow
// Cluster API with its drain label and its MachineDrainRules ([ReadMachineDrainRules]).
//
//	rules := append([]drain.Rule{drain.OneAtATimeWithVolumes}, drain.DefaultRules()...)
//	plan := drain.Planner{Rules: rules}.Plan(nodes, facts)
//
// Before the first eviction, [Plan.Permanent] lists the permanent obstacles with their remedies, and [Plan.Warnings] what is lost.
//
// # Guarantees
//
//   - Equal input gives an equal plan, byte for byte. A plan does not depend on the order of maps, a clock or random numbers.
//   - Inputs are not changed. Plans share the Pods that were passed, and must not be changed.
//   - A rule that denies a Pod, or returns an error, is final: later rules cannot make the Pod evictable.
//   - A plan does not evict more Pods of a budget than the status of the budget allows, counted over all Nodes of the plan.
//   - The action for a Pod of another Node is always Ignore.
//   - A Pod that no rule decides about is denied. Every Pod has an action, an order and a reason.
//   - A MachineDrainRule that is invalid, or that needs labels that were not read, holds only the Pods that it may select.
//   - A volume that was not read is an error and does not count as detached. Inline, shared and orphaned volumes and those of ignored Pods
//     are not waited for.
//   - Only a [Policy] forces anything. Without one, Pods are evicted without a time limit, with their own grace periods. It never sets a
//     grace period of 0.
//   - A completed Pod does not block a drain that waits for its completion.
//
// # Limits
//
// The budget count is an estimate from a snapshot. The API server decides, and package drain/runner also requests evictions that a plan
// regards as permanently denied. [Plan.Permanent] applies while Pods, budgets and replicas do not change; it cannot detect whether the
// controller of a finalizer still runs. A drain does not recognize Nodes whose Pods wait for each other's budgets. Owner references are
// trusted: a Pod of a deleted DaemonSet counts as a DaemonSet Pod. Of lost data, only emptyDir volumes are recognized. Which Pod uses an
// in-tree volume is unknown: while an ignored Pod uses one, or a claim whose volume has no VolumeAttachment, no in-tree volume is waited
// for.
package drain
