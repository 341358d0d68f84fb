package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func (p *plan) block(message string) { p.out.Blocked = append(p.out.Blocked, message) }

// blockUnavailable reports that Machines must become available before others can be deleted.
func (p *plan) blockUnavailable() {
	waited := p.named(func(s *set, m *Machine) bool {
		return !usable(m) && (s == p.current || p.current == nil) && !s.loses(m)
	})
	p.block("waiting for " + cmp.Or(waited, "Machines") + " to become available")
}

// wait reports what some Machines, if any, must do before the rollout can continue.
func (p *plan) wait(to string, which func(*set, *Machine) bool) {
	if waited := p.named(which); waited != "" {
		p.block("waiting for " + waited + " " + to)
	}
}

// blockLeaving reports which Machines must be gone before others are created.
func (p *plan) blockLeaving() { p.wait("to be gone", (*set).loses) }

// loses reports whether a Machine is leaving, because of an earlier plan or for another reason.
func (s *set) loses(m *Machine) bool {
	return s.Deleting || m.Deleting || slices.Contains(s.pending, m)
}

// maxNames is the maximum number of Machines in a message.
const maxNames = 5

// named returns the names of some Machines for a message.
func (p *plan) named(which func(*set, *Machine) bool) string {
	var names []string
	for _, s := range p.sets {
		for i := range s.Machines {
			if which(s, &s.Machines[i]) {
				names = append(names, s.Machines[i].Name)
			}
		}
	}
	if slices.Sort(names); len(names) > maxNames {
		names = append(names[:maxNames], "...")
	}
	return strings.Join(names, ", ")
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
