// Package phases computes the phase of a Machine and its reason.
//
// A [Table] is an ordered list of rules from facts to a [Decision]; the first matching rule applies. [ClusterAPI], [ClusterAPIV1Beta1],
// [ClusterAPIV1Alpha3], [Kubermatic] and [Gardener] are the existing dialects; [New] makes a custom one, with custom facts. The phase never
// depends on the stored phase, so a lost or late write has no lasting effect.
//
// # Guarantees
//
// Compute is total, deterministic, allocates nothing, and is safe for concurrent use. [New] rejects a table without a phase for all facts.
//
// # Limits
//
// Facts are booleans: for a rule that depends on a number or a time, define a fact, which its caller computes. The phase is for people and
// dashboards. Base decisions on facts and conditions, as Cluster API's contract requires too.
package phases
