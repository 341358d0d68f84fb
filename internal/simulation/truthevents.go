package simulation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the invariants about the events that the reconcilers record.
const (
	toldOnce = truthPrefix + "a process does not record an event twice while nobody else writes"
	toldTrue = truthPrefix + "an event that something was done is recorded when it was"
)

// eventLog is what the events of a history depend on.
type eventLog struct {
	// told are the events that were recorded, and how often others had written before.
	told map[eventKey]int
	// others counts the writes that a process has not made.
	others map[*process]int
	// made are the names of the Machines and MachineSets that there are or were.
	made map[types.NamespacedName]bool
}

func newEventLog() *eventLog {
	return &eventLog{map[eventKey]int{}, map[*process]int{}, map[types.NamespacedName]bool{}}
}

// eventKey tells an event from others: the process that recorded it, and the start of that.
type eventKey struct {
	process      *process
	life         int
	about        types.UID
	reason, note string
}

// recorder takes the events that the reconcilers of a process record.
type recorder struct{ process *process }

func (m Manager) recorder() recorder { return recorder{m.process} }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	p, obj := r.process, regarding.(client.Object) //nolint:forcetypeassert // the library records events about objects only
	w, text := p.world, fmt.Sprintf(note, args...)
	key := eventKey{p, p.life, obj.GetUID(), reason, text}
	looks := w.habits != nil && obj.GetObjectKind().GroupVersionKind().Kind == "Machine" // each look may find something else
	if others, again := w.events.told[key]; again && others == w.events.others[p] && !looks && !isAttempt(reason) {
		w.fail(toldOnce, fmt.Errorf("%s %s: %s", reason, obj.GetName(), text))
	}
	w.events.told[key] = w.events.others[p]
	if p.began >= w.backups.event { // a backup that is restored undoes what a pass has done
		w.fail(toldTrue, w.denies(obj.GetNamespace(), reason, text))
	}
}

// isAttempt reports whether an event is about an attempt: that it has failed, or what a user has asked for.
func isAttempt(reason string) bool {
	return strings.HasPrefix(reason, "Failed") || strings.Contains(reason, "Rollback")
}

// words are the words of a note that may be names.
func words(note string) []string {
	return strings.FieldsFunc(note, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) })
}

// sees is called for each write.
func (l *eventLog) sees(w *World, obj *unstructured.Unstructured) {
	if kind := obj.GetKind(); kind == "Machine" || kind == "MachineSet" {
		l.made[client.ObjectKeyFromObject(obj)] = true
	}
	for _, p := range w.processes {
		if p != w.acting {
			l.others[p]++
		}
	}
}

// denies returns what is not as an event says.
func (w *World) denies(namespace, reason, note string) error {
	for _, word := range words(note) {
		gone := map[string][]*unstructured.Unstructured{
			"SuccessfulDelete":     {w.object("Machine", namespace, word), w.object("MachineSet", namespace, word)},
			"SuccessfulDeleteNode": {w.object("Node", w.clusterOf(namespace).space, word)},
		}
		for _, obj := range gone[reason] {
			if obj != nil && obj.GetDeletionTimestamp() == nil {
				return fmt.Errorf("%s: %s: %s %s stays", reason, note, obj.GetKind(), word)
			}
		}
		made := w.events.made[types.NamespacedName{Namespace: namespace, Name: word}]
		if reason == "SuccessfulCreate" && strings.Contains(word, "-") && !made {
			return fmt.Errorf("%s: %s: there is no %s", reason, note, word)
		}
	}
	return nil
}
