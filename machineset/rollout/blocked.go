package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func (p *plan) block(message string) { p.out.Blocked = append(p.out.Blocked, message) }

// blockUnavailable says that Machines have to become available for others to go.
func (p *plan) blockUnavailable() {
	waited := p.named(func(s *set, m *Machine) bool {
		return !usable(m) && (s == p.current || p.current == nil) && !s.loses(m)
	})
	p.block("waiting for " + cmp.Or(waited, "Machines") + " to become available")
}

// wait says what some Machines, if there are any, have to do for the rollout to go on.
func (p *plan) wait(to string, which func(*set, *Machine) bool) {
	if waited := p.named(which); waited != "" {
		p.block("waiting for " + waited + " " + to)
	}
}

// blockLeaving says which Machines have to go for others to be created.
func (p *plan) blockLeaving() { p.wait("to be gone", (*set).loses) }

// loses reports whether a Machine goes, because of an earlier plan or for another reason.
func (s *set) loses(m *Machine) bool {
	return s.Deleting || m.Deleting || slices.Contains(s.pending, m)
}

// maxNames is how many Machines a message names.
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
