// Package drain decides which pods leave a Node, in which order, and says why a pod has to stay for now.
//
// A [Planner] folds its rules over every pod, counts the disruption budgets over all Nodes it is given and returns a
// [Plan]. [Classify] turns an answer of the eviction endpoint into an [Outcome]. Nothing here talks to a cluster:
// package drain/runner carries a plan out. A [VolumePlanner] says which volumes the deletion of the machine has to wait for
// afterwards, and [SerialVolumes] lets pods with volumes leave one after the other. [DefaultRules] decide where nothing else
// is said; [KubectlRules] have the verdicts and the words of kubectl drain, flag by flag. A [Policy] says as data how long a
// drain stays polite, what it does then, and what it does about a Node that does not answer; [Policy.Rule] is the last rule of
// a fold.
//
// # Usage
//
// Rules are a slice, asked one after the other: rules about orders first ([SetOrder], [OrderByPriority],
// [SystemCriticalLast], ...), then rules that decide. [DefaultRules] follow kubectl drain with --ignore-daemonsets, --force and
// --delete-emptydir-data, without which kubectl refuses pods that nothing creates again and pods with local data
// ([KubectlRules]); [ClusterAPIRules] follow Cluster API with its drain label and its MachineDrainRules ([ReadMachineDrainRule],
// [NewMachineDrainRules]); [DaemonSetDrain] drains DaemonSet pods as well. [When] limits a rule to some pods.
//
//	rules := append([]drain.Rule{drain.OrderByPriority(), drain.SystemCriticalLast}, drain.DefaultRules()...)
//	plan := drain.Planner{Rules: rules}.Plan(nodes, facts)
//
// A plan can be asked before one eviction is sent: [Plan.Permanent] names what waiting does not remove and what a person
// can do about it, [Plan.Warnings] what is lost, [Plan.LowerBound] what the drain takes at least.
//
// # Guarantees
//
//   - Equal input gives an equal plan, byte for byte; nothing depends on map order, a clock or chance.
//   - No input is changed. Plans share the pods they were given and must be read only.
//   - A rule that denies a pod or fails ends the fold: no later rule makes that pod evictable.
//   - A plan never evicts more pods of a budget than its status allows, counted over all Nodes of the plan.
//   - A pod of another Node never gets a verdict other than Ignore.
//   - A rule set that has no opinion about a pod denies it; it is never evicted by omission. Every pod has an action, an order
//     and a reason.
//   - A MachineDrainRule that is invalid, or that asks for labels nobody read, holds the pods it may mean and no others.
//   - A volume that was not read is an error, never detached. Inline, shared, orphaned and foreign volumes and those of
//     ignored pods are never waited for, unless a [VolumePlanner] is told to wait for shared ones.
//   - A limit of [SerialVolumes] ends a turn, never the drain or the wait for a volume.
//   - Nothing is forced unless a [Policy] says so: without one, pods are evicted for ever, with their own grace periods.
//   - No policy sets a grace period of 0 without AllowImmediateKill, nor for a Node that is silent and not known to be off.
//   - A completed pod never blocks a drain that waits for its completion.
//
// # Limits
//
// The budget count is advice drawn from a snapshot; the API server has the last word, and package drain/runner asks it also for
// what a plan says can never go. What [Plan.Permanent] calls permanent is
// so while pods, budgets and replicas stay as they are; of a finalizer it cannot know whether its controller lives. The bound
// knows grace periods and budgets and not how long pods take to become ready elsewhere, and a runner may shorten grace
// periods. Nodes whose pods wait for each other's budgets are not recognised. Owner references are trusted: a pod of a
// DaemonSet that was deleted is taken for a DaemonSet pod. Of data that is lost, only emptyDir volumes are seen.
// Which in-tree volume a pod uses is told by its plugin only.
package drain
