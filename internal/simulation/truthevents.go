package simulation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Names of the invariants about the events that the reconcilers record.
const (
	toldOnce = truthPrefix + "a process does not record an event twice without a change between"
	toldTrue = truthPrefix + "an event that something was done is recorded when it was"
)

// eventLog is what the events of a history depend on.
type eventLog struct {
	// told are the events that were recorded, by the UID of their object; true for one that repeats a condition of it, which may come again.
	told map[types.UID]map[eventKey]bool
	// uids are those of the objects that there are or were, by kind and name.
	uids map[string]types.UID
}

func newEventLog() *eventLog {
	return &eventLog{map[types.UID]map[eventKey]bool{}, map[string]types.UID{}}
}

// eventKey tells an event from others: the process that recorded it, and the UIDs of what it names.
type eventKey struct{ process, reason, note, named string }

// recorder takes the events that the reconcilers of a process record.
type recorder struct{ process *process }

func (m Manager) recorder() recorder { return recorder{m.process} }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	p, obj := r.process, regarding.(client.Object) //nolint:forcetypeassert // the library records events about objects only
	w, text := p.world, fmt.Sprintf(note, args...)
	e := eventKey{p.named(), reason, text, w.events.named(obj.GetNamespace(), text)}
	about := w.object(obj.GetObjectKind().GroupVersionKind().Kind, obj.GetNamespace(), obj.GetName())
	switch {
	case isAttempt(reason):
		e.named += fmt.Sprint(len(w.history.Events)) // each attempt is one of its own
	case about != nil: // another Node may have had the name
		e.named += about.GetAnnotations()[contract.NodeUIDAnnotation] + about.GetAnnotations()[contract.DrainedAnnotation]
		for _, c := range conditionsIn(about) {
			if strings.HasSuffix(text, c.Message) && c.Message != "" {
				e.named += c.Reason + string(c.Status)
			}
		}
	}
	told := w.events.told[obj.GetUID()]
	if told == nil {
		told = map[eventKey]bool{}
		w.events.told[obj.GetUID()] = told
	}
	if _, again := told[e]; again {
		w.fail(toldOnce, fmt.Errorf("%s %s: %s", reason, obj.GetName(), text))
	}
	told[e] = repeats(about, e)
	if p.began >= w.backups.event { // a backup that is restored undoes what a pass has done
		w.fail(toldTrue, w.denies(obj.GetNamespace(), reason, text))
	}
}

// isAttempt reports whether an event is about an attempt: that it has failed, or what a user has asked for.
func isAttempt(reason string) bool {
	return strings.HasPrefix(reason, "Failed") || strings.Contains(reason, "Rollback")
}

// eventSubjects are the kinds of the objects that events name.
func eventSubjects() []string { return []string{"Machine", "MachineSet", "Node"} }

// words are the words of a note that may be names.
func words(note string) []string {
	return strings.FieldsFunc(note, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) })
}

// nameOf is how the log calls an object.
func nameOf(kind, namespace, name string) string {
	if kind == "Node" {
		namespace = ""
	}
	return kind + " " + namespace + "/" + name
}

// named are the UIDs of the objects that a note names.
func (l *eventLog) named(namespace, note string) string {
	var all strings.Builder
	for _, word := range words(note) {
		for _, kind := range eventSubjects() {
			all.WriteString(string(l.uids[nameOf(kind, namespace, word)]))
		}
	}
	return all.String()
}

// sees is called for each write. What another one writes is a change, and so is a condition that is another one now.
func (l *eventLog) sees(by *process, obj *unstructured.Unstructured) {
	l.uids[nameOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())] = obj.GetUID()
	for e, condition := range l.told[obj.GetUID()] {
		if by == nil || e.process != by.named() || condition && !repeats(obj, e) {
			delete(l.told[obj.GetUID()], e)
		}
	}
}

// named tells the lives of processes from each other.
func (p *process) named() string { return fmt.Sprint(p.name, " ", p.life) }

// repeats reports whether an event says what a condition of its object says, or names the recorded Node.
func repeats(obj *unstructured.Unstructured, e eventKey) bool {
	if obj == nil || textAt(obj, "status", "nodeRef", "name") == e.note {
		return obj != nil
	}
	return slices.ContainsFunc(conditionsIn(obj), func(c metav1.Condition) bool {
		return c.Message != "" && strings.HasSuffix(e.note, c.Message)
	})
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
		made := w.events.uids[nameOf("Machine", namespace, word)] + w.events.uids[nameOf("MachineSet", namespace, word)]
		if reason == "SuccessfulCreate" && strings.Contains(word, "-") && made == "" {
			return fmt.Errorf("%s: %s: there is no %s", reason, note, word)
		}
	}
	return nil
}
