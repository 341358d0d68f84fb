package runner

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/drain"
)

// Reasons of the events that a Runner records on Nodes, all with the action Drain.
const (
	EventDrainStarted = "DrainStarted" // Normal: the drain of a Node began
	EventDrainBlocked = "DrainBlocked" // Warning: a group of Pods cannot leave for a new reason
	EventDrained      = "Drained"      // Normal: no Pod is left that has to leave
	actionDrain       = "Drain"
)

const (
	eventEvery    = 10 * time.Minute // for one group of blocked Pods
	eventsPerNode = 5                // groups of blocked Pods that are reported within that time
	maxEventNote  = 1000             // events.k8s.io/v1 allows 1,024 bytes
)

// Events records events. An events.EventRecorder of client-go implements it. The object is the Node, so the recorder must be one of the
// Node's cluster. It must not block, and is called without a lock.
type Events interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

type event struct{ kind, reason, note string }

// progress is what was reported about the drain of one Node.
type progress struct {
	begun   time.Time // first report
	done    bool
	blocked map[drain.Reason]int // Pods, by reason
	since   map[string]time.Time // by key of the blockers of the last report
	told    map[string]time.Time // by blocker key
}

// report completes a result with what is known about the past and the queue. end decides whether the drain has ended. refused says that the
// credentials are refused; events are those that the result causes.
func (r *Runner) report(ns *nodeState, result *Result, now time.Time, end func()) (events []event, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.paused.until) {
		refused = r.paused.refused
	}
	if ns.released {
		end()
		return nil, refused
	}
	p := &ns.progress
	if p.done && result.Counts.Total > result.Counts.Ignored {
		*p = progress{} // drained before, and now Pods are on the Node again
	}
	fresh := p.look(result, now)
	for _, a := range ns.attempts {
		if a.state == resting {
			result.againAt(a.retryAt, now)
		}
	}
	end()
	if p.begun.IsZero() {
		p.begun = now
		if !result.Done {
			events = append(events, event{corev1.EventTypeNormal, EventDrainStarted,
				fmt.Sprintf("Draining the Node: %d of %d Pods have to go", result.Counts.Total-result.Counts.Ignored, result.Counts.Total)})
		}
	}
	events = append(events, fresh...)
	if result.Done && !p.done {
		p.done = true
		r.cfg.Metrics.drained(now.Sub(p.begun), resultDrained)
		events = append(events, event{corev1.EventTypeNormal, EventDrained, "Every Pod that had to go has left the Node"})
	}
	return events, refused
}

// look sets since when each blocker is known, and returns events about new ones.
func (p *progress) look(result *Result, now time.Time) (events []event) {
	if p.told == nil {
		p.told = map[string]time.Time{}
	}
	for key, at := range p.told {
		if now.Sub(at) >= eventEvery {
			delete(p.told, key)
		}
	}
	since := make(map[string]time.Time, len(result.Blockers))
	p.blocked = map[drain.Reason]int{}
	for i := range result.Blockers {
		b := &result.Blockers[i]
		key := b.Key()
		p.blocked[b.Reason] += b.Count
		at, known := p.since[key]
		if !known {
			at = now
		}
		b.Since, since[key] = at, at
		if _, recent := p.told[key]; known || recent || len(p.told) >= eventsPerNode {
			continue
		}
		p.told[key] = now
		events = append(events, event{corev1.EventTypeWarning, EventDrainBlocked, blockerNote(b)})
	}
	p.since = since
	return events
}

// record must be called without the lock.
func (r *Runner) record(node *corev1.Node, events []event) {
	if r.cfg.Events == nil {
		return
	}
	for _, e := range events {
		r.cfg.Events.Eventf(node, nil, e.kind, e.reason, actionDrain, "%s", shorten(e.note))
	}
}

func blockerNote(b *drain.Blocker) string {
	names := make([]string, 0, len(b.Pods))
	for _, ref := range b.Pods {
		names = append(names, ref.String())
	}
	text := strings.Join(names, ", ")
	if rest := b.Count - len(names); rest > 0 {
		text += fmt.Sprintf(", ... (%d more)", rest)
	}
	return text + ": " + cmp.Or(b.Message, string(b.Reason))
}

func shorten(note string) string {
	if len(note) <= maxEventNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxEventNote-3], "") + "..."
}
