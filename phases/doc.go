// Package phases decides in which phase of its life a Machine is, and why.
//
// A [Table] is an ordered list of rules from [Facts] to a [Decision]; the first rule that holds wins. [Compute] uses
// Cluster API's phases. The phase is derived afresh each time: nothing depends on the phase that was stored before, so a
// lost or late write cannot lead a Machine astray.
//
// # Guarantees
//
// Computing is total, deterministic, allocates nothing, and is safe for concurrent use. A table without a last rule that
// always holds is refused by [New].
//
// # Limits
//
// The phase is for people and dashboards. Decide on facts and conditions, as Cluster API's contract asks too.
package phases
