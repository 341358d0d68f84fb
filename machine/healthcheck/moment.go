package healthcheck

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// moment is when something was recorded. Its time is by the clock of the process, and newest by that of the API server, which gives
// Machines their times: when the newest Machines were made that were seen, zero when unknown. seen names these.
type moment struct {
	at, newest int64
	seen       string
}

// recordedAt is what the ledger gets: where the Machines say that the clock of this process is behind, the time of the newest one.
func recordedAt(f PlanFacts) moment {
	m := moment{at: f.Now.Unix()}
	var seen []string
	for i := range f.Machines {
		made := f.Machines[i].Created.Unix()
		if made > m.newest {
			m.newest, seen = made, nil
		}
		if made == m.newest {
			seen = append(seen, short(f.Machines[i].UID))
		}
	}
	if len(seen) <= maxSeen {
		slices.Sort(seen)
		m.seen = strings.Join(seen, ",")
	}
	if contract.IsAhead(time.Unix(m.newest, 0), f.Now) {
		m.at = m.newest
	}
	return m
}

// maxSeen is how many Machines of one second are named: a Ledger has a bounded size.
const maxSeen = 10

// short returns as much of a UID as distinguishes the Machines of one second.
func short(uid types.UID) string { return string(uid[:min(len(uid), 8)]) }

// lastSeen returns the last second, by the clock of the API server, in which a Machine may have been made that was there already. A cache
// may not have shown that Machine, so the clock of the process counts too: it is ahead by ClockTolerance at most.
func lastSeen(at, newest int64) int64 {
	if newest == 0 {
		return at
	}
	return max(newest, at-int64(contract.ClockTolerance/time.Second))
}

// last returns the last second in which a Machine may have been made that was there when the place became empty. Where the deletion of the
// Machine was seen, what was made since was not there, whatever the clock of the process says, and that clock is believed about what was
// made before. A replacement may be made in the second of the deletion, by an owner that does not wait for its end.
func (e *Entry) last() int64 {
	if e.Deleted == 0 {
		return lastSeen(e.At, e.After)
	}
	return max(e.After, min(e.At, e.Deleted-1))
}

// isBefore reports whether the place became empty before a Machine was made. A Machine that was made in the same second as the newest ones
// that were seen is none of these; where they are not known, it may be.
func (e *Entry) isBefore(m *Machine) bool {
	made, last := m.Created.Unix(), e.last()
	if made != last || made != e.After || e.Deleted > made || e.Seen == "" {
		return made > last
	}
	return !slices.Contains(strings.Split(e.Seen, ","), short(m.UID))
}

// earliest returns the first second of a Machine for which isBefore is ever true: the deletion may have yet to be seen.
func (e *Entry) earliest() int64 {
	if e.After == 0 {
		return e.At + 1
	}
	return e.After
}

// observe records when the deletion of the Machine was requested. One that was requested before the newest Machine was made that was seen
// says nothing.
func (e *Entry) observe(m *Machine) {
	if at := m.DeletingSince.Unix(); m.Deleting && e.Deleted == 0 && e.After > 0 && at >= e.After {
		e.Deleted = at
	}
}

// isBefore reports whether the last failure was before a Machine was made.
func (l *Line) isBefore(m *Machine) bool { return lastSeen(l.Last, l.After) < m.Created.Unix() }
