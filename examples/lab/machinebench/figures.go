package main

import (
	"fmt"
	"net/http"

	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// figures are the costs of one fleet of Machines.
type figures struct {
	Machines int    `json:"machines"`
	Create   phase  `json:"create"`           // from the first create until all are Running
	Delete   phase  `json:"delete"`           // from the first delete until all are gone
	Heap     *heap  `json:"heap,omitempty"`   // nil if it was not measured
	Steady   *rests `json:"steady,omitempty"` // nil if it was not measured
}

// phase is the creation or the deletion of Machines.
type phase struct {
	Wall float64 `json:"wallSeconds"`
	CPU  float64 `json:"cpuSecondsPerMachine"`
	// Writes, Reads (gets and lists) and Watches are per Machine, by resource such as "machines/status".
	Writes  map[string]float64 `json:"writesPerMachine"`
	Reads   map[string]float64 `json:"readsPerMachine"`
	Watches map[string]float64 `json:"watchesPerMachine"`
	// Conflicts are the writes of all Machines that were answered with 409, because they were based on stale data.
	Conflicts int `json:"conflicts"`
}

// heap is what is live after a garbage collection, in bytes.
type heap struct {
	Empty       float64 `json:"emptyBytes"` // before the first Machine
	Full        float64 `json:"fullBytes"`  // with all of them Running
	PerMachine  float64 `json:"bytesPerMachine"`
	PodsPerNode int     `json:"podsPerNode"`
}

// rests are the requests of a manager while nothing changes.
type rests struct {
	Seconds float64 `json:"seconds"`
	Writes  int     `json:"writes"`
	Reads   int     `json:"reads"`
	Watches int     `json:"watches"`
}

// fromEvents computes the figures of a phase from the audit log. own are the events of the arm.
func (p *phase) fromEvents(own cluster.AuditEvents, machines int) {
	writes, reads, watches := map[string]int{}, map[string]int{}, map[string]int{}
	for _, e := range own {
		switch {
		case !arms.IsCounted(e):
		case e.IsWrite():
			writes[resourceOf(e)]++
			if e.Code == http.StatusConflict {
				p.Conflicts++
			}
		case isRead(e):
			reads[resourceOf(e)]++
		case e.Verb == "watch":
			watches[resourceOf(e)]++
		}
	}
	p.Writes, p.Reads, p.Watches = perMachine(writes, machines), perMachine(reads, machines), perMachine(watches, machines)
}

func perMachine(counts map[string]int, machines int) map[string]float64 {
	all := make(map[string]float64, len(counts))
	for resource, n := range counts {
		all[resource] = float64(n) / float64(machines)
	}
	return all
}

func isRead(e cluster.AuditEvent) bool { return e.Verb == "get" || e.Verb == "list" }

func resourceOf(e cluster.AuditEvent) string {
	switch {
	case e.Resource == "":
		return "(no resource)" // discovery, and probes of a connection
	case e.Subresource != "":
		return e.Resource + "/" + e.Subresource
	}
	return e.Resource
}

func restsOf(own cluster.AuditEvents, seconds float64) *rests {
	r := &rests{Seconds: seconds}
	for _, e := range own {
		switch {
		case !arms.IsCounted(e):
		case e.IsWrite():
			r.Writes++
		case isRead(e):
			r.Reads++
		case e.Verb == "watch":
			r.Watches++
		}
	}
	return r
}

func heapOf(empty, full float64, machines, pods int) *heap {
	return &heap{Empty: empty, Full: full, PerMachine: (full - empty) / float64(machines), PodsPerNode: pods}
}

func sum(counts map[string]float64) float64 {
	total := 0.0
	for _, n := range counts {
		total += n
	}
	return total
}

// The figures of both phases together.
func (f *figures) writes() float64 { return sum(f.Create.Writes) + sum(f.Delete.Writes) }
func (f *figures) reads() float64  { return sum(f.Create.Reads) + sum(f.Delete.Reads) }
func (f *figures) cpu() float64    { return f.Create.CPU + f.Delete.CPU }
func (f *figures) wall() float64   { return f.Create.Wall + f.Delete.Wall }

// rate is the number of Machines per second, from creation to deletion.
func (f *figures) rate() float64 { return perSecond(f.Machines, f.wall()) }

func perSecond(machines int, wall float64) float64 {
	if wall <= 0 {
		return 0
	}
	return float64(machines) / wall
}

func (f *figures) String() string {
	return fmt.Sprintf("Running after %.1fs, gone after %.1fs, %.1f writes and %.1f ms CPU per Machine",
		f.Create.Wall, f.Delete.Wall, f.writes(), 1000*f.cpu())
}
