package scale

import "time"

// Ceiling is how many Machines one plan creates or deletes at most.
const Ceiling = ceiling

// PlanWithin is Plan with another ceiling.
func PlanWithin(f Facts, ceiling int) Decision { return planWithin(f, ceiling) }

// ErrLedger is errLedger.
var ErrLedger = errLedger

// Compare is compare.
func (o Order) Compare(a, b Machine) int { return o.compare(&a, &b) }

// MarkAt has a Machine be marked at a time.
func (m *Machine) MarkAt(at time.Time) { m.Marked, m.markedAt = true, at }

// AvailableAt has a Machine be available since a time.
func (m *Machine) AvailableAt(at time.Time) { m.Available, m.availableSince = true, at }

// AvailableSince is when a Machine became available.
func (m *Machine) AvailableSince() time.Time { return m.availableSince }

// AskFirst has a person ask for the remediation of a Machine, SayRemediating has its owner say that it is deleted for that, and SayRecovered
// that it is no longer marked.
func (m *Machine) AskFirst()       { m.remediateFirst = true }
func (m *Machine) SayRemediating() { m.remediating = true }
func (m *Machine) SayRecovered()   { m.recovered = true }

// Marks returns how many Machines count, how many freeze a set, and how many thaw it.
func (v FreezeVerdict) Marks() (count, high, low int) { return v.count, v.high, v.low }
