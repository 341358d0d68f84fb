// Package safety decides when a set of Machines stops creating, when all reconcilers stop, and which instances of a provider have no
// Machine. It makes no request, reads no clock and keeps nothing: package guard carries its decisions out.
//
// # Overshoot
//
// [Evaluate] freezes a set that has far more Machines than it wants, and thaws it when they are gone. [Follow] does the same for a
// deployment: it is frozen while one of its sets is. A frozen set creates nothing; it still deletes its surplus. The limits are
// Gardener's (--safety-up, --safety-down); what it gets wrong there is different here:
//
//   - each set is evaluated alone: an unreadable surge or a failed write at one delays no other;
//   - a scale-down is no overshoot. When fewer Machines are wanted than before, the limit ([Set.Mark]) falls with the number of Machines,
//     not with the replicas, and Machines in deletion count only beyond the desired number. So only creations reach the limit;
//   - a thaw by hand lasts: what a person has accepted counts as wanted;
//   - a person's freeze is never ended by a number ([Freezing]).
//
// # Unreachable API servers
//
// [Reach] is what is known about one API server. After a tolerance without an answer, everything that depends on it is frozen. After the
// outage [Reach.Timer] starts the timers of health checks anew: a fleet that was Unknown because nothing could report has as long to come
// back as a Machine whose Node fails now.
//
// # Orphans
//
// [PlanOrphans] returns which instances have no Machine, and which of them to delete now.
package safety
