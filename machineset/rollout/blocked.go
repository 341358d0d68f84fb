package rollout

import (
	"slices"
	"strconv"
	"strings"

	"github.com/machinist-dev/machinist/machineset/scale"
)

// maxNames is how many Machines a message names.
const maxNames = 5

func (p *plan) block(reason, message string) {
	p.out.Blocked = append(p.out.Blocked, scale.Hold{Reason: reason, Message: message})
}

// blockUnavailable says which Machines have to become available for others to go.
func (p *plan) blockUnavailable() {
	var waited []string
	for _, s := range p.sets {
		for _, m := range s.alive {
			if !usable(m) && (s == p.current || p.current == nil) {
				waited = append(waited, m.Name)
			}
		}
	}
	message := "the next Machine goes when more Machines are available"
	if len(waited) > 0 {
		message = "waiting for " + names(waited) + " to become available"
	}
	p.block(ReasonMachinesNotAvailable, message)
}

// blockLeaving says which Machines have to go for others to be created.
func (p *plan) blockLeaving() {
	var waited []string
	for _, s := range p.sets {
		for i := range s.Machines {
			if s.Deleting || s.Machines[i].Deleting {
				waited = append(waited, s.Machines[i].Name)
			}
		}
		for _, m := range s.pending {
			waited = append(waited, m.Name)
		}
	}
	if len(waited) > 0 {
		p.block(ReasonMachinesLeaving, "waiting for "+names(waited)+" to be gone")
	}
}

func names(all []string) string {
	slices.Sort(all)
	more := ""
	if n := len(all) - maxNames; n > 0 {
		all, more = all[:maxNames], " and "+strconv.Itoa(n)+" more"
	}
	return strings.Join(all, ", ") + more
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
