package cluster

import "time"

// phase is what there is of a connection.
type phase uint8

const (
	// apart means that there is no connection.
	apart phase = iota
	// linked means that there is one, and the server answers.
	linked
	// lost means that there is one, and the server does not answer.
	lost
)

// facts are what is known of one cluster when it is decided what to do next.
type facts struct {
	Now   time.Time
	Phase phase
	// Asked is when the cluster was last used, and Held that a caller holds it.
	Asked time.Time
	Held  bool
	// Changed means that the target may be another one.
	Changed bool
	// Troubled means that something went wrong since the last probe.
	Troubled bool
	// Foreign means that another component runs the cluster: it is not probed.
	Foreign bool
	// CatchUp is when it is looked again whether the cache has caught up with the server after an outage; zero is never.
	CatchUp time.Time
	// LookAt is when the target is looked at again although nothing has happened; zero is never.
	LookAt time.Time
	// RetryAt is the end of the pause after a failure.
	RetryAt time.Time
	// Seen is when something was last heard, Probed when the server was last asked.
	Seen, Probed time.Time
}

// action is what to do next for one cluster.
type action uint8

const (
	// pause means to do nothing until a time, or until something happens.
	pause action = iota
	// connect makes a connection.
	connect
	// rejoin probes a lost server.
	rejoin
	// replace looks whether the target has changed, and makes a new connection if so.
	replace
	// examine probes a server that was silent or troubled.
	examine
	// catchUp looks whether the cache has caught up with the server.
	catchUp
	// retire ends the connection if it is really unused.
	retire
)

// decide returns what to do next, and for pause until when: zero is until something happens.
func decide(f facts, silence, idle time.Duration) (action, time.Time) {
	type plan struct {
		action action
		at     time.Time
	}
	var plans []plan // in order of importance
	switch f.Phase {
	case apart:
		plans = append(plans, plan{connect, f.RetryAt})
	case lost:
		next := rejoin
		if f.Changed {
			next = replace
		}
		plans = append(plans, plan{next, f.RetryAt})
	case linked:
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
