package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// Resources whose objects are followed.
const (
	pods       = "pods"
	nodes      = "nodes"
	machines   = "machines"
	infraItems = "kwokmachines"
)

// thing is what the invariants need of an object, and of a Status.
type thing struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ProviderID    string `json:"providerID"`
		NodeName      string `json:"nodeName"`
		Unschedulable bool   `json:"unschedulable"`
	} `json:"spec"`
	Status  json.RawMessage `json:"status"` // a text in a Status
	Details struct {
		UID types.UID `json:"uid"`
	} `json:"details"`
	// Target is that of a Binding.
	Target struct {
		Name string `json:"name"`
	} `json:"target"`
}

// is reports whether a condition is True.
func (t *thing) is(condition string) bool {
	var status struct {
		Conditions []struct{ Type, Status string } `json:"conditions"`
	}
	if json.Unmarshal(t.Status, &status) != nil {
		return false
	}
	for _, c := range status.Conditions {
		if c.Type == condition {
			return c.Status == string(metav1.ConditionTrue)
		}
	}
	return false
}

func (t *thing) leaving() bool { return t.Metadata.DeletionTimestamp != nil }

// record is what one write has made of an object.
type record struct {
	at      time.Time
	version uint64
	thing   thing
	event   cluster.AuditEvent
	// says is whether the object says that it is Available, or for a pod, Ready.
	says    bool
	removed bool
}

// life is what is known of an object, in the order of the writes.
type life struct {
	resource, name string
	uid            types.UID
	records        []record
	// node is where a pod runs, bound since when it does, and evicted the evictions of it that were accepted.
	node    string
	bound   time.Time
	evicted []cluster.AuditEvent
}

func (l *life) first() record { return l.records[0] }
func (l *life) last() record  { return l.records[len(l.records)-1] }

// bind notes where a pod runs. Its first event that says so may be later than its binding.
func (l *life) bind(node string, at time.Time) {
	if l.node == "" {
		l.node, l.bound = node, at
	}
}

// removal is the write that removed the object.
func (l *life) removal() (record, bool) {
	last := l.last()
	return last, last.removed
}

// before returns the number of records that a condition holds for; they come first.
func (l *life) before(is func(record) bool) int {
	n := slices.IndexFunc(l.records, func(r record) bool { return !is(r) })
	if n < 0 {
		return len(l.records)
	}
	return n
}

// story is all that is known.
type story struct {
	events cluster.AuditEvents // writes, by the time of their arrival
	lives  map[types.UID]*life
	named  map[string][]*life // by resource and name
	order  []*life            // by resource and first version
	killed []time.Time
	// unsure are writes that may have been carried out, by resource and name.
	unsure map[string][]time.Time
}

func key(resource, name string) string { return resource + "/" + name }

// tell reads the story from a log.
func tell(events cluster.AuditEvents, killed []time.Time) (*story, error) {
	s := &story{
		events: slices.Clone(events.Writes()), lives: map[types.UID]*life{}, named: map[string][]*life{},
		killed: killed, unsure: map[string][]time.Time{},
	}
	slices.SortStableFunc(s.events, func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) })
	latest := uint64(0)
	for i, e := range s.events {
		if e.Code >= 500 || e.Code == 0 {
			s.unsure[key(e.Resource, e.Name)] = append(s.unsure[key(e.Resource, e.Name)], e.Received)
			continue
		}
		if e.Code >= 300 || len(e.Answer) == 0 {
			continue
		}
		version, err := s.hear(&s.events[i], latest)
		if err != nil {
			return nil, fmt.Errorf("read the answer to %s: %w", e, err)
		}
		latest = max(latest, version)
	}
	s.arrange()
	return s, nil
}

// hear adds what a write has made. It returns the version of the object, the latest one if the answer has none.
func (s *story) hear(e *cluster.AuditEvent, latest uint64) (uint64, error) {
	var t thing
	if err := json.Unmarshal(e.Answer, &t); err != nil {
		return 0, err
	}
	switch {
	case e.Subresource == "eviction":
		for _, l := range s.named[key(pods, e.Name)] {
			l.evicted = append(l.evicted, *e)
		}
		return latest, nil
	case e.Subresource == "binding":
		var bound thing
		if err := json.Unmarshal(e.Sent, &bound); err != nil {
			return 0, err
		}
		for _, l := range s.named[key(pods, e.Name)] {
			l.bind(bound.Target.Name, e.Received)
		}
		return latest, nil
	case t.Kind == "Status" && t.Details.UID != "":
		if l := s.lives[t.Details.UID]; l != nil {
			was := l.last()
			l.records = append(l.records, record{at: e.Received, version: latest, thing: was.thing, event: *e, removed: true})
		}
		return latest, nil
	case t.Metadata.UID == "":
		return latest, nil // such as the answer to a deletecollection
	case t.Metadata.ResourceVersion == "":
		// A delete without a grace period that another one overtook answers with the object as it read it, without a version
		// (kubernetes/kubernetes#19403). The one that removed the object has an event of its own.
		return latest, nil
	}
	version, err := strconv.ParseUint(t.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0, err
	}
	l := s.of(e.Resource, &t)
	if t.Spec.NodeName != "" {
		l.bind(t.Spec.NodeName, e.Received)
	}
	l.records = append(l.records, record{
		at: e.Received, version: version, thing: t, event: *e, says: t.is(expected(e.Resource)), removed: removed(e, &t),
	})
	return version, nil
}

func expected(resource string) string {
	if resource == machines {
		return "Available"
	}
	return "Ready"
}

// removed reports whether an answer shows an object that is no longer there: the last finalizer is gone, and a pod has no time left.
func removed(e *cluster.AuditEvent, t *thing) bool {
	if !t.leaving() || len(t.Metadata.Finalizers) > 0 {
		return false
	}
	left := t.Metadata.DeletionGracePeriodSeconds
	return e.Resource != pods && e.Verb != "delete" || left != nil && *left == 0
}

func (s *story) of(resource string, t *thing) *life {
	if l := s.lives[t.Metadata.UID]; l != nil {
		return l
	}
	l := &life{resource: resource, name: t.Metadata.Name, uid: t.Metadata.UID}
	s.lives[l.uid] = l
	s.named[key(resource, l.name)] = append(s.named[key(resource, l.name)], l)
	s.order = append(s.order, l)
	return l
}

// arrange orders records and lives as etcd did.
func (s *story) arrange() {
	for _, l := range s.order {
		slices.SortStableFunc(l.records, func(a, b record) int {
			if a.removed != b.removed {
				return map[bool]int{true: 1, false: -1}[a.removed]
			}
			return cmp.Compare(a.version, b.version)
		})
	}
	slices.SortStableFunc(s.order, func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.first().version, b.first().version), cmp.Compare(a.uid, b.uid))
	})
}

// all returns the objects of a resource.
func (s *story) all(resource string) []*life {
	var all []*life
	for _, l := range s.order {
		if l.resource == resource {
			all = append(all, l)
		}
	}
	return all
}

// mayHave reports whether a write to an object may have been carried out without an event between two times.
func (s *story) mayHave(l *life, from, to time.Time) bool {
	in := func(at time.Time) bool { return !at.Before(from) && !at.After(to) }
	return slices.ContainsFunc(s.killed, in) || slices.ContainsFunc(s.unsure[key(l.resource, l.name)], in)
}

// unseen reports whether an object may have been created without an event before a time.
func (s *story) unseen(resource, name string, at time.Time) bool {
	before := func(lost time.Time) bool { return !lost.After(at) }
	return len(s.named[key(resource, name)]) == 0 && (slices.ContainsFunc(s.killed, before) ||
		slices.ContainsFunc(s.unsure[key(resource, name)], before) || slices.ContainsFunc(s.unsure[key(resource, "")], before))
}

// holdsAt reports whether an object was Available, or Ready, at a time, which is after its first n records. It was too if the next record
// says so, or there is none, and the write that made it so may have no event.
func (s *story) holdsAt(l *life, n int, at time.Time) bool {
	if n == 0 || l.records[n-1].removed || l.records[n-1].thing.leaving() {
		return false
	}
	was := l.records[n-1]
	if n < len(l.records) {
		if !l.records[n].says {
			return was.says
		}
		at = l.records[n].at
	}
	return was.says || s.mayHave(l, was.at, at)
}
