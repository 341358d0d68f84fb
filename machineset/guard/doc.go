// Package guard holds sets and deployments while an API server does not answer, and finds instances of a provider without a Machine.
// machineset.FreezeStep and deployment.FreezeStep freeze what overshoots. Each part works alone:
//
//   - a [Gate] probes the API server of the Machines and those of their clusters. [HoldStep] keeps sets and deployments from creating while
//     it is closed, and [FreezeStep] stops the passes of any kind;
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
// [Gate.Of] returns the healthcheck.Reach of a cluster, a plain value to decide with: while a server is silent no Machine is judged, and
// afterwards no timer begins before it answered again.
//
// # What keeps a fleet from being deleted as orphans
//
// The instances are listed first and the Machines are read after that, from the API server itself, all of them, whoever reconciles them.
// One list that fails, is empty or does not fit, or one Machine that cannot be read, and nothing is confirmed. An instance counts as owned
// also by its name, or by the last part of its provider ID. The Collector looks only at clusters that have a Machine: after the last
// Machine of a cluster is gone, it finds no instance of that cluster.
package guard
