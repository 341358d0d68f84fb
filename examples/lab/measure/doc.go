// Package measure has what the benchmarks on a control plane share: progress output, measured processes, requests counted from the audit
// log, medians, and a report of them.
package measure
