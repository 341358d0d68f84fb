package machine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/machinist-dev/machinist/contract/patch"
)

// observer updates Metrics for one Reconciler. A nil observer does nothing. Safe for concurrent use.
type observer struct {
	metrics *Metrics
	clock   clock.PassiveClock
	// steps are the series of each step, passes those of each result of a pass, and the others are about the Machine itself.
	steps       map[string]stepSeries
	passes      map[string]prometheus.Observer
	read, write failures
	active      atomic.Bool // the Reconciler's Machines are counted, or were

	mu     sync.Mutex
	phases map[types.NamespacedName]phaseTrack
}

// failures are the counters of the two ways in which an operation fails.
type failures struct{ errors, conflicts prometheus.Counter }

// count counts an error.
func (f failures) count(err error) {
	if patch.Retryable(err) {
		f.conflicts.Inc()
		return
	}
	f.errors.Inc()
}

// stepSeries are the series of a step, looked up once.
type stepSeries struct {
	failures

	took    prometheus.Observer
	results map[string]prometheus.Counter
}

// Operations that are not steps.
const (
	operationRead  = "read"
	operationWrite = "write"
)

// Results of passes and steps.
const (
	resultDone       = "done"
	resultRequeued   = "requeued"
	resultStopped    = "stopped"
	resultCheckpoint = "checkpoint"
	resultConflict   = "conflict"
	resultFailed     = "failed"
)

// newObserver returns nil without Options.Metrics.
func newObserver(o Options) *observer {
	if o.Metrics == nil {
		return nil
	}
	obs := &observer{
		metrics: o.Metrics, clock: o.Clock, phases: map[types.NamespacedName]phaseTrack{},
		steps: map[string]stepSeries{}, passes: map[string]prometheus.Observer{},
		read:  failures{errors: o.Metrics.errors.WithLabelValues(operationRead)},
		write: o.Metrics.failures(operationWrite),
	}
	for _, step := range o.Steps {
		obs.steps[step.Name] = o.Metrics.series(step.Name)
	}
	for _, result := range []string{resultDone, resultRequeued, resultConflict, resultFailed} {
		obs.passes[result] = o.Metrics.passTime.WithLabelValues(result)
	}
	return obs
}

func (m *Metrics) failures(operation string) failures {
	return failures{errors: m.errors.WithLabelValues(operation), conflicts: m.conflicts.WithLabelValues(operation)}
}

// series creates the series of a step, so that they exist, with zero, from the start.
func (m *Metrics) series(step string) stepSeries {
	step = strings.ToValidUTF8(step, "?")
	series := stepSeries{failures: m.failures(step), took: m.stepTime.WithLabelValues(step), results: map[string]prometheus.Counter{}}
	for _, result := range []string{resultDone, resultStopped, resultCheckpoint, resultConflict, resultFailed} {
		series.results[result] = m.results.WithLabelValues(step, result)
	}
	return series
}

// activate counts the Machines while the controller runs: from its start until ctx ends.
func (o *observer) activate(ctx context.Context, r *Reconciler) {
	if o != nil && o.active.CompareAndSwap(false, true) {
		context.AfterFunc(ctx, o.metrics.activate(ctx, r))
	}
}

// begin is called at the start of a pass, and end at its end. Where no controller was started, the first pass shows that this process is
// active.
func (o *observer) begin(ctx context.Context, r *Reconciler) {
	if o == nil {
		return
	}
	o.metrics.workers.Inc()
	if r.indexed && !o.active.Load() {
		o.activate(context.WithoutCancel(ctx), r)
	}
}

func (o *observer) end() {
	if o != nil {
		o.metrics.workers.Dec()
	}
}

// unread is called for a Machine that could not be read.
func (o *observer) unread() {
	if o != nil {
		o.read.errors.Inc()
	}
}

// now returns the time, zero for a nil observer.
func (o *observer) now() time.Time {
	if o == nil {
		return time.Time{}
	}
	return o.clock.Now()
}

// ran is called after each step.
func (o *observer) ran(step string, since time.Time, result Result, err error) {
	if o == nil {
		return
	}
	series, found := o.steps[step]
	if !found { // not a step of this Reconciler
		return
	}
	series.took.Observe(o.clock.Since(since).Seconds())
	ended := resultDone
	switch {
	case err != nil:
		ended = failureResult(err)
		series.count(err)
	case result.Checkpoint:
		ended = resultCheckpoint
	case result.Stop:
		ended = resultStopped
	}
	series.results[ended].Inc()
}

func failureResult(err error) string {
	if patch.Retryable(err) {
		return resultConflict
	}
	return resultFailed
}

// passed is called at the end of a pass, with all its errors.
func (o *observer) passed(s *Scope, again time.Duration, err error) {
	if o == nil {
		return
	}
	result := resultDone
	switch {
	case err != nil:
		result = failureResult(err)
	case again > 0:
		result = resultRequeued
	}
	o.passes[result].Observe(o.clock.Since(s.Now).Seconds())
}

// wrote is called when the pass has written its decisions, or has found that there is nothing to write.
func (o *observer) wrote(s *Scope, err error) {
	if o == nil {
		return
	}
	if err != nil && !s.EndsWith(err) {
		o.write.count(err)
	}
	o.followPhase(s, err)
}

// phaseAt is a phase and when it began, zero when that is unknown. phaseTime is how long a Machine was in a phase that it has left.
type (
	phaseAt struct {
		phase string
		at    time.Time
	}
	phaseTime struct {
		phase string
		took  time.Duration
	}
)

// phaseTrack is what a process knows about the sequence of a Machine's phases. A phase counts as left when the status with the next phase,
// or the removal of the finalizer, is stored: of two processes only one can do that, so no phase is counted twice. Passes decide earlier,
// and phases that follow each other quickly may not be stored one by one; the times of those decisions are remembered until then, and lost
// with the process.
type phaseTrack struct {
	machine types.UID
	// stored is the phase in the object, with its start as this process knows it and as the object records it.
	stored phaseAt
	said   time.Time
	// path are the phases that were decided since, in order, and are not stored yet.
	path []phaseAt
}

// maxPath is how many phases are remembered that were decided and not stored. Every dialect has fewer in a row.
const maxPath = 16

// decided returns the track after a pass that read one phase and decided on another, or on the same. read.at is the time of the last phase
// change in the object; a new process starts from it.
func (t phaseTrack) decided(machine types.UID, read phaseAt, phase string, now time.Time) phaseTrack {
	if t.machine != machine || t.stored.phase != read.phase || read.at.After(t.said) {
		t = phaseTrack{machine: machine, stored: read, said: read.at} // new to this process, or written by another one
	}
	if phase == t.stored.phase {
		t.path = nil // the phase is the stored one again, before another was stored
		return t
	}
	at := slices.IndexFunc(t.path, func(p phaseAt) bool { return p.phase == phase })
	switch {
	case at >= 0:
		t.path = t.path[:at+1] // an earlier phase again: those between were not stored
	case len(t.path) < maxPath:
		t.path = append(slices.Clip(t.path), phaseAt{phase, now})
	}
	return t
}

// told returns the track after a status write with the last phase on the path and the time of that change, and the phases that the Machine
// left. A status write only applies to the version that its pass has read: no other process has stored, and counted, that phase.
func (t phaseTrack) told(said time.Time) (phaseTrack, []phaseTime) {
	if len(t.path) == 0 {
		return t, nil
	}
	last := len(t.path) - 1
	next := phaseTrack{machine: t.machine, stored: t.path[last], said: said}
	return next, t.left(next.stored.at)[:last+1]
}

// left returns how long the Machine was in each phase so far, if it leaves the last one now. Phases with an unknown start have a negative
// time.
func (t phaseTrack) left(now time.Time) []phaseTime {
	way := append([]phaseAt{t.stored}, t.path...)
	times := make([]phaseTime, len(way))
	for i, p := range way {
		end := now
		if i+1 < len(way) {
			end = way[i+1].at
		}
		times[i] = phaseTime{phase: p.phase, took: -1}
		if !p.at.IsZero() && p.phase != "" {
			times[i].took = max(0, end.Sub(p.at)) // objects store whole seconds, from another machine's clock
		}
	}
	return times
}

// followPhase records what a pass decided about the phase, and observes the phases that the Machine left when that is stored.
func (o *observer) followPhase(s *Scope, err error) {
	o.mu.Lock()
	before := o.phases[s.State.Key]
	track := before.decided(s.State.UID, s.before, s.State.Phase, s.Now)
	var left []phaseTime
	over := err == nil && s.Written() && s.env.released(&s.State)
	switch {
	case over:
		left = track.left(s.Now)
		delete(o.phases, s.State.Key)
	case err == nil && s.stores && s.State.Phase != s.before.phase:
		track, left = track.told(s.State.LastUpdated.Truncate(time.Second))
	}
	if !over {
		o.phases[s.State.Key] = track
	}
	o.mu.Unlock()
	for _, phase := range left {
		if phase.took >= 0 {
			o.metrics.phaseTime.WithLabelValues(o.metrics.phaseNames.admit(phase.phase)).Observe(phase.took.Seconds())
		}
	}
}

// forget removes what is known about a Machine that is gone.
func (o *observer) forget(machine types.NamespacedName) {
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.phases, machine)
	}
}

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
