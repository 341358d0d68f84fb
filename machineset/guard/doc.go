// Package guard holds sets and deployments while an API server does not respond, and finds instances of a provider without a Machine.
// machineset.FreezeStep and deployment.FreezeStep freeze overshooting sets and deployments. Each part can be used alone:
//
//   - a [Gate] probes the API server of the Machines and those of their clusters. While it is closed, [HoldStep] prevents sets and
//     deployments from creating, and [FreezeStep] stops the passes of any kind;
//   - a [Collector] lists instances with a provider.Driver, and by default only reports those without a Machine.
//
// A manager with both:
//
//	gate, err := guard.NewGate(guard.GateOptions{Management: guard.Answers(mgr.GetAPIReader(), machines, "default")})
//	collector, err := guard.NewCollector(guard.CollectorOptions{Calls: calls, Gate: gate,
//		Sources: []guard.Source{guard.MachinesOf(mgr.GetAPIReader(), machines)}})
//	err = errors.Join(mgr.Add(gate), mgr.Add(collector))
//
// # For a health check
//
// [Gate.Of] returns the healthcheck.Reach of a cluster as a plain value: while a server does not respond no Machine is judged, and
// afterwards no timer begins before it responded again.
//
// # What keeps a fleet from being deleted as orphans
//
// The instances are listed first. Then all Machines are read from the API server itself, whoever reconciles them. If one list fails, is
// empty or does not fit, or one Machine cannot be read, nothing is confirmed. An instance also counts as owned by its name, or by the last
// part of its provider ID. The Collector considers only clusters that have a Machine: after the last Machine of a cluster is gone, it finds
// no instance of that cluster.
package guard
