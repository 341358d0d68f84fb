package runner

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/drain"
)

// Reasons of the events that a Runner records on Nodes, all with the action Drain.
const (
	EventDrainStarted = "DrainStarted" // Normal
	EventDrainBlocked = "DrainBlocked" // Warning: a group of pods cannot go for a new reason
	EventDrained      = "Drained"      // Normal
	actionDrain       = "Drain"
)

const (
	eventEvery    = 10 * time.Minute // for one group of blocked pods
	eventsPerNode = 5                // groups of blocked pods told of within that time
	maxEventNote  = 1000             // events.k8s.io/v1 allows 1,024 bytes
)

// Events records events; an events.EventRecorder of client-go does. The object is the Node, so the recorder must be one of
// the Node's cluster. It must not block and is called without a lock.
type Events interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

type event struct{ kind, reason, note string }

// progress is what was told about the drain of one Node.
type progress struct {
	begun   time.Time // first Step; zero when nobody drains the Node
	done    bool
	blocked map[drain.Reason]int // pods, by reason
	present map[string]bool      // blocker keys of the last look
	told    map[string]time.Time // by blocker key
}

// observe takes a report in and tells events and metrics what is new about it.
func (r *Runner) observe(node *corev1.Node, result *Result) {
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	ns := r.nodes[node.Name]
	if ns == nil || ns.uid != node.UID {
		r.mu.Unlock()
		return
	}
	if ns.progress.done && result.Counts.Total > result.Counts.Ignored {
		ns.progress = progress{} // drained once, and now there are pods again
	}
	events := ns.progress.look(result, now)
	if result.Done && !ns.progress.done {
		ns.progress.done = true
		r.cfg.Metrics.drained(now.Sub(ns.progress.begun), resultDrained)
	}
	r.mu.Unlock()
	if r.cfg.Events == nil {
		return
	}
	for _, e := range events {
		r.cfg.Events.Eventf(node, nil, e.kind, e.reason, actionDrain, "%s", shorten(e.note))
	}
}

// look returns the events of a new report.
func (p *progress) look(result *Result, now time.Time) []event {
	var events []event
	if p.begun.IsZero() {
		*p = progress{begun: now, told: map[string]time.Time{}}
		if !result.Done {
			events = append(events, event{corev1.EventTypeNormal, EventDrainStarted,
				fmt.Sprintf("Draining the Node: %d of %d Pods have to go", result.Counts.Total-result.Counts.Ignored, result.Counts.Total)})
		}
	}
	for key, at := range p.told {
		if now.Sub(at) >= eventEvery {
			delete(p.told, key)
		}
	}
	present := make(map[string]bool, len(result.Blockers))
	p.blocked = map[drain.Reason]int{}
	for i := range result.Blockers {
		b := &result.Blockers[i]
		key := b.Key()
		present[key] = true
		p.blocked[b.Reason] += b.Count
		if _, recent := p.told[key]; p.present[key] || recent || len(p.told) >= eventsPerNode {
			continue
		}
		p.told[key] = now
		events = append(events, event{corev1.EventTypeWarning, EventDrainBlocked, blockerNote(b)})
	}
	p.present = present
	if result.Done && !p.done {
		events = append(events, event{corev1.EventTypeNormal, EventDrained, "Every Pod that had to go has left the Node"})
	}
	return events
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
	if b.Message == "" {
		return text + ": " + string(b.Reason)
	}
	return text + ": " + b.Message
}

func shorten(note string) string {
	if len(note) <= maxEventNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxEventNote-3], "") + "..."
}
