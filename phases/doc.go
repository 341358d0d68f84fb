// Package phases decides in which phase of its life a Machine is, and why.
//
// A [Table] is an ordered list of rules from facts to a [Decision]; the first rule that holds wins. [ClusterAPI],
// [ClusterAPIV1Beta1], [ClusterAPIV1Alpha3], [Kubermatic] and [Gardener] are the dialects of the field; [New] makes one of your
// own, over facts of your own. The phase is derived afresh
// each time: nothing depends on the phase that was stored before, so a lost or late write cannot lead a Machine astray.
//
// # Guarantees
//
// Computing is total, deterministic, allocates nothing, and is safe for concurrent use. [New] refuses a table that leaves facts without a
// phase.
//
// # Limits
//
// Facts are yes or no: a rule that depends on a number or a time asks for a fact that says so, and the code that
// sets the facts reads the clock. The phase is for people and dashboards. Decide on facts and conditions, as Cluster API's
// contract asks too.
package phases
