package measure

import (
	"maps"
	"net/http"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// Figures are named numbers, such as "up seconds" or "writes/machine".
type Figures map[string]float64

// Requests are counts by step, such as "create", and by name, such as "patch machines/status".
type Requests map[string]map[string]float64

// Run is what one arm has cost in one case and round.
type Run struct {
	Case     string   `json:"case,omitempty"`
	Arm      string   `json:"arm"`
	Round    int      `json:"round"`
	Figures  Figures  `json:"figures"`
	Requests Requests `json:"requests"`
}

// NewRun returns a run without figures.
func NewRun(of, arm string, round int) *Run {
	return &Run{Case: of, Arm: arm, Round: round, Figures: Figures{}, Requests: Requests{}}
}

// Count adds the requests of a step, and their totals as figures of the step: writes, reads (gets and lists), watches that began, and
// conflicts (writes that were answered with 409). Requests for Leases, which are for leader election, are left out.
func (r *Run) Count(step string, events cluster.AuditEvents) {
	counts := map[string]float64{}
	for _, kind := range []string{"writes", "reads", "watches", "conflicts"} {
		r.Figures[step+" "+kind] += 0
	}
	for _, e := range events.Where(IsCounted) {
		var kind string
		switch {
		case e.IsWrite():
			kind = "writes"
			if e.Code == http.StatusConflict {
				r.Figures[step+" conflicts"]++
			}
		case e.Verb == "get" || e.Verb == "list":
			kind = "reads"
		case e.Verb == "watch":
			kind = "watches"
		default:
			continue
		}
		r.Figures[step+" "+kind]++
		counts[nameOf(e)]++
	}
	r.Requests[step] = counts
}

// IsCounted leaves out requests for Leases.
func IsCounted(e cluster.AuditEvent) bool { return e.Resource != "leases" }

func nameOf(e cluster.AuditEvent) string {
	switch {
	case e.Resource == "":
		return e.Verb + " (no resource)" // discovery, and probes of a connection
	case e.Subresource != "":
		return e.Verb + " " + e.Resource + "/" + e.Subresource
	}
	return e.Verb + " " + e.Resource
}

// Sum adds up a figure of steps.
func (f Figures) Sum(figure string, steps ...string) float64 {
	sum := 0.0
	for _, step := range steps {
		sum += f[step+" "+figure]
	}
	return sum
}

// medians takes the median of every figure by itself, so that the result need not be one of the runs. A figure that some runs do not have
// is that of the others; a request that is missing in a run counts as 0.
func medians(runs []Run) (Figures, Requests) {
	figures, requests := Figures{}, Requests{}
	for _, run := range runs {
		for name := range run.Figures {
			figures[name] = 0
		}
		for step, counts := range run.Requests {
			if requests[step] == nil {
				requests[step] = map[string]float64{}
			}
			maps.Copy(requests[step], counts)
		}
	}
	for name := range figures {
		var values []float64
		for _, run := range runs {
			if value, measured := run.Figures[name]; measured {
				values = append(values, value)
			}
		}
		figures[name] = Median(values)
	}
	for step, counts := range requests {
		for name := range counts {
			var values []float64
			for _, run := range runs {
				values = append(values, run.Requests[step][name])
			}
			counts[name] = Median(values)
		}
	}
	return figures, requests
}
