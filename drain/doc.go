// Package drain decides which pods leave a Node, in which order, and says why a pod has to stay for now.
//
// A [Planner] folds its rules over every pod, counts the disruption budgets over all Nodes it is given and returns a
// [Plan]. [Classify] turns an answer of the eviction endpoint into an [Outcome]. Nothing here talks to a cluster:
// package drain/runner carries a plan out.
//
// # Guarantees
//
//   - Equal input gives an equal plan, byte for byte; nothing depends on map order, a clock or chance.
//   - No input is changed. Plans share the pods they were given and must be read only.
//   - A rule that denies a pod or fails ends the fold: no later rule makes that pod evictable.
//   - A plan never evicts more pods of a budget than its status allows, counted over all Nodes of the plan.
//   - A pod of another Node never gets a verdict other than Ignore.
//   - A rule set that has no opinion about a pod denies it; it is never evicted by omission.
//
// # Limits
//
// The budget count is advice drawn from a snapshot; the API server has the last word. Volumes, deadlines and unreachable
// Nodes are not judged yet. The function that DESIGN calls Plan is [Planner.Plan], because Go has one name space for
// functions and types and the result deserves the noun.
package drain
