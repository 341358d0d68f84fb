package machine

import "github.com/prometheus/client_golang/prometheus"

// metric describes one metric. The collector and the list in the documentation are generated from these.
type metric struct {
	name, kind, help string
	labels           []string
	buckets          []float64 // of a histogram, in seconds
}

// The metrics, in the order of the documentation. The names of the first four come from the requirements of this project.
const (
	metricMachines = iota
	metricErrors
	metricWorkers
	metricReplicas
	metricPhases
	metricPhaseTime
	metricPassTime
	metricStepTime
	metricResults
	metricConflicts
	metricCount
)

const (
	kindGauge     = "gauge"
	kindCounter   = "counter"
	kindHistogram = "histogram"
)

// Labels.
const (
	labelProvider  = "provider"
	labelOperation = "operation"
	labelState     = "state"
	labelPhase     = "phase"
	labelStep      = "step"
	labelResult    = "result"
)

func metricTable() [metricCount]metric {
	return [metricCount]metric{
		metricMachines: {
			name: "machine_controller_machines_total", kind: kindGauge, labels: []string{labelProvider},
			help: "Machines that are looked after, by what provides their machine.",
		},
		metricErrors: {
			name: "machine_controller_errors_total", kind: kindCounter, labels: []string{labelOperation},
			help: "Errors that are retried, by the step that failed, or read or write of the Machine itself; without conflicts.",
		},
		metricWorkers: {
			name: "machine_controller_workers_running", kind: kindGauge,
			help: "Passes over Machines that are under way.",
		},
		metricReplicas: {
			name: "machine_controller_machine_deployment_replicas", kind: kindGauge, labels: []string{labelState},
			help: "Replicas of all MachineDeployments: desired, actual, ready and available.",
		},
		metricPhases: {
			name: "machinist_machines", kind: kindGauge, labels: []string{labelPhase},
			help: "Machines that are looked after, by the phase in their status.",
		},
		metricPhaseTime: {
			name: "machinist_machine_phase_duration_seconds", kind: kindHistogram, labels: []string{labelPhase},
			help:    "Time that a Machine spent in a phase, observed when it has left it.",
			buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 86400, 604800, 2592000},
		},
		metricPassTime: {
			name: "machinist_machine_pass_duration_seconds", kind: kindHistogram, labels: []string{labelResult},
			help:    "Time of a pass over a Machine, writes included, by how it ended: done, requeued, conflict or failed.",
			buckets: []float64{.0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		},
		metricStepTime: {
			name: "machinist_machine_step_duration_seconds", kind: kindHistogram, labels: []string{labelStep},
			help:    "Time that a step took for one Machine.",
			buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10},
		},
		metricResults: {
			name: "machinist_machine_step_results_total", kind: kindCounter, labels: []string{labelStep, labelResult},
			help: "Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed.",
		},
		metricConflicts: {
			name: "machinist_machine_conflicts_total", kind: kindCounter, labels: []string{labelOperation},
			help: "Writes that were rejected because the object had changed since it was read, by the step, or write of the Machine itself.",
		},
	}
}

func (m metric) desc(fixed prometheus.Labels) *prometheus.Desc {
	return prometheus.NewDesc(m.name, m.help, m.labels, fixed)
}

func (m metric) counters(fixed prometheus.Labels) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name, Help: m.help, ConstLabels: fixed}, m.labels)
}

func (m metric) histograms(fixed prometheus.Labels) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: m.name, Help: m.help, ConstLabels: fixed, Buckets: m.buckets}, m.labels)
}
