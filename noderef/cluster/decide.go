package cluster

import "time"

// phase is the state of a connection.
type phase uint8

const (
	// disconnected means that there is no connection.
	disconnected phase = iota
	// connected means that there is a connection, and the server answers.
	connected
	// lost means that there is a connection, and the server does not answer.
	lost
)

// facts is what is known about one cluster when the next action is decided.
type facts struct {
	Now   time.Time
	Phase phase
	// Asked is when the cluster was last used. Held means that a caller holds it.
	Asked time.Time
	Held  bool
	// Changed means that the target may have changed.
	Changed bool
	// Troubled means that a request or a connection failed since the last probe.
	Troubled bool
	// Foreign means that another component runs the cluster: it is not probed.
	Foreign bool
	// CatchUp is when to check again whether the cache has caught up with the server after an outage; zero is never.
	CatchUp time.Time
	// LookAt is when to read the target again although no change was reported; zero is never.
	LookAt time.Time
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
	// connect creates a connection.
	connect
	// rejoin probes a lost server.
	rejoin
	// replace reads the target, and creates a new connection if it changed.
	replace
	// examine probes a server that was silent or troubled.
	examine
	// catchUp checks whether the cache has caught up with the server.
	catchUp
	// retire ends the connection if it is not used.
	retire
)

// decide returns what to do next, and for pause until when; zero is until something happens.
func decide(f facts, silence, idle time.Duration) (action, time.Time) {
	type plan struct {
		action action
		at     time.Time
	}
	var plans []plan // most important first
	switch f.Phase {
	case disconnected:
		plans = append(plans, plan{connect, f.RetryAt})
	case lost:
		next := rejoin
		if f.Changed {
			next = replace
		}
		plans = append(plans, plan{next, f.RetryAt})
	case connected:
		switch {
		case f.Changed:
			plans = append(plans, plan{replace, f.RetryAt})
		case !f.LookAt.IsZero():
			plans = append(plans, plan{replace, f.LookAt})
		}
		if !f.Foreign {
			due := f.Seen.Add(silence)
			if f.Troubled {
				due = f.Probed.Add(probeGap)
			}
			plans = append(plans, plan{examine, due})
		}
		if !f.CatchUp.IsZero() {
			plans = append(plans, plan{catchUp, f.CatchUp})
		}
	}
	if !f.Held {
		plans = append([]plan{{retire, f.Asked.Add(idle)}}, plans...)
	}
	var wake time.Time
	for _, p := range plans {
		if !f.Now.Before(p.at) {
			return p.action, f.Now
		}
		if wake.IsZero() || p.at.Before(wake) {
			wake = p.at
		}
	}
	return pause, wake
}
