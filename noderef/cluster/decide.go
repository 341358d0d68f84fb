package cluster

import "time"

// facts is what is known about one cluster when the next action is decided.
type facts struct {
	Now time.Time
	// Asked is when the cluster was last used.
	Asked time.Time
	// Connected means that there is a connection.
	Connected bool
	// Changed means that the target may have changed.
	Changed bool
	// Troubled means that a request or a connection failed since the last probe.
	Troubled bool
	// RetryAt is the end of the pause after a failure.
	RetryAt time.Time
	// Seen is the time of the last sign of life, Probed that of the last probe.
	Seen, Probed time.Time
}

// action is what to do next for one cluster.
type action uint8

const (
	// pause does nothing until a time, or until something happens.
	pause action = iota
	// connect reads the target, and creates a connection unless there is one to it.
	connect
	// examine probes a server that was silent or troubled.
	examine
	// retire ends the connection if it is not used.
	retire
)

// decide returns what to do next, and for pause until when.
func decide(f facts, silence, idle time.Duration) (action, time.Time) {
	type plan struct {
		action action
		at     time.Time
	}
	plans := []plan{{retire, f.Asked.Add(idle)}} // most important first
	if !f.Connected || f.Changed {
		plans = append(plans, plan{connect, f.RetryAt})
	}
	if f.Connected {
		due := f.Seen.Add(silence)
		if f.Troubled {
			due = f.Probed.Add(probeGap)
		}
		plans = append(plans, plan{examine, due})
	}
	wake := plans[0].at
	for _, p := range plans {
		if !f.Now.Before(p.at) {
			return p.action, f.Now
		}
		if p.at.Before(wake) {
			wake = p.at
		}
	}
	return pause, wake
}
