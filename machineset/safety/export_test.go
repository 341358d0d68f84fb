package safety

// Marks returns how many Machines freeze a set, and how many thaw it.
func (v Verdict) Marks() (high, low int) { return v.high, v.low }
