package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// Names of the steps that are measured.
const (
	stepUp      = "up"
	stepRoll    = "roll"
	stepDown    = "down"
	stepJudge   = "judge"
	stepReplace = "replace"
)

// figures are what one set, or one deployment, has cost.
type figures struct {
	machines int
	replaced int     // Machines that a health check has replaced
	phases   []phase // in order
	cpu      float64 // seconds in all
	floor    float64 // CPU seconds of the floor
	memory   float64 // bytes at most, 0 where the system does not tell
}

// of is the phase with a name.
func (f figures) of(name string) phase {
	if i := slices.IndexFunc(f.phases, func(p phase) bool { return p.name == name }); i >= 0 {
		return f.phases[i]
	}
	return phase{}
}

// sum adds up what each phase has.
func (f figures) sum(of func(phase) int) int {
	n := 0
	for _, p := range f.phases {
		n += of(p)
	}
	return n
}

// each is what each phase has, as text.
func (f figures) each(of func(phase) int) string {
	var all []string
	for _, p := range f.phases {
		all = append(all, strconv.Itoa(of(p)))
	}
	return strings.Join(all, " + ")
}

// phase is one step.
type phase struct {
	name      string
	seconds   float64
	cpu       float64        // seconds
	heap      float64        // live bytes more than before, where a step measures that
	writes    map[string]int // by verb and resource
	reads     int
	conflicts int
	// times are when the first and the last of these writes came, in seconds.
	times map[string]span
}

type span struct{ first, last float64 }

func phaseOf(events cluster.AuditEvents, start time.Time, took time.Duration) phase {
	p := phase{seconds: took.Seconds(), writes: map[string]int{}, times: map[string]span{}}
	for _, e := range events.Where(arms.IsCounted) {
		switch {
		case e.IsWrite():
			name := e.Verb + " " + e.Resource
			if e.Subresource != "" {
				name += "/" + e.Subresource
			}
			at := e.Received.Sub(start).Seconds()
			if p.writes[name]++; p.writes[name] == 1 {
				p.times[name] = span{at, at}
			}
			p.times[name] = span{min(p.times[name].first, at), max(p.times[name].last, at)}
			if e.Code == http.StatusConflict {
				p.conflicts++
			}
		case e.Verb == "get" || e.Verb == "list":
			p.reads++
		}
	}
	return p
}

func (p phase) total() int {
	n := 0
	for _, count := range p.writes {
		n += count
	}
	return n
}

func (p phase) requests() int { return p.total() + p.reads }

// work is the time from the first deletion of a Machine to the end.
func (p phase) work() float64 { return p.seconds - p.times["delete machines"].first }

func (f figures) perMachine() float64 { return float64(f.sum(phase.total)) / float64(f.machines) }

func (f figures) String() string {
	var out strings.Builder
	for _, p := range f.phases {
		fmt.Fprintf(&out, "%s after %.1fs, ", p.name, p.seconds)
	}
	fmt.Fprintf(&out, "%.1f writes per Machine, %.1fs CPU", f.perMachine(), f.cpu)
	return out.String()
}
