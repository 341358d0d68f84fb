package e2e_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/machineset/scale"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// owned are the Machines of sets.
func (s *story) owned() []*life {
	return slices.DeleteFunc(s.all(machines), func(l *life) bool {
		return !slices.ContainsFunc(l.records, func(r record) bool {
			owner := metav1.GetControllerOf(&r.thing.Metadata)
			return owner != nil && owner.Kind == "MachineSet"
		})
	})
}

func oneForEachSlot(j *judge) {
	seen := map[string]*life{}
	for _, m := range j.owned() {
		slot := m.first().thing.Metadata.Annotations[scale.StampAnnotation]
		if slot == "" {
			continue
		}
		if other := seen[slot]; other != nil {
			j.broken(m.first().at, "%s and %s were made for the slot %s", other.name, m.name, slot)
		}
		seen[slot] = m
	}
}

// tokenOf is the UID of the infrastructure object that the provider has made a Node for; empty for other Nodes.
func (s *story) tokenOf(node *life) string {
	return node.first().thing.Metadata.Annotations[kwokdriver.TokenAnnotation]
}

// machineOf is the Machine that an infrastructure object belongs to.
func (s *story) machineOf(infra *life) *life {
	if infra == nil {
		return nil
	}
	for _, r := range infra.records {
		if owner := metav1.GetControllerOf(&r.thing.Metadata); owner != nil && owner.Kind == "Machine" {
			return s.lives[owner.UID]
		}
	}
	return nil
}

// instancesOf are the Nodes of each Machine, by its UID; those of an infrastructure object without a Machine by the UID of that.
func (s *story) instancesOf() map[types.UID][]*life {
	all := map[types.UID][]*life{}
	for _, node := range s.all(nodes) {
		token := types.UID(s.tokenOf(node))
		if token == "" {
			continue
		}
		if m := s.machineOf(s.lives[token]); m != nil {
			token = m.uid
		}
		all[token] = append(all[token], node)
	}
	return all
}

func oneInstance(j *judge) {
	instances := j.instancesOf()
	for _, uid := range sortedKeys(instances) {
		if all := instances[uid]; len(all) > 1 {
			j.broken(all[1].first().at, "%s has had the instances %s and %s", j.called(uid), all[0].name, all[1].name)
		}
	}
	for _, m := range j.owned() {
		id := ""
		for _, r := range m.records {
			if got := r.thing.Spec.ProviderID; got != "" && id != "" && got != id {
				j.broken(r.at, "%s had the provider ID %s, and has %s", m.name, id, got)
			}
			id = cmp.Or(r.thing.Spec.ProviderID, id)
		}
	}
}

func (s *story) called(uid types.UID) string {
	if l := s.lives[uid]; l != nil {
		return l.name
	}
	return string(uid)
}

func sortedKeys[V any](m map[types.UID]V) []types.UID {
	keys := make([]types.UID, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// end is the version at which an object is no longer there for sure.
func (s *story) end(l *life) uint64 {
	last, gone := l.removal()
	if !gone && len(s.events) > 0 && !s.mayHave(l, last.at, s.events[len(s.events)-1].Received) {
		return math.MaxUint64
	}
	return last.version
}

func notTooMany(j *judge) {
	all := j.owned()
	for _, m := range all {
		n := 0
		for _, other := range all {
			if other.first().version <= m.first().version && j.end(other) > m.first().version {
				n++
			}
		}
		if most := j.terms.Desired + j.terms.Surge; n > most {
			j.broken(m.first().at, "%s is number %d, and there should never be more than %d", m.name, n, most)
		}
	}
}

// deletion is the record of the request with which a program began to delete an object.
func (j *judge) deletion(l *life, users []string) (n int, found bool) {
	for i, r := range l.records {
		if r.thing.leaving() || r.removed {
			return i, r.event.Verb == "delete" && slices.Contains(users, r.event.User)
		}
	}
	return 0, false
}

// lately is how long before a deletion a Machine may cease to be available by itself and still count: when it was decided that the other
// one goes, this one was available. An API server that has just started refuses a provider for a moment, for example.
const lately = 5 * time.Second

// wasAvailableAfter reports whether a Machine, which is not being deleted, was available after a time.
func wasAvailableAfter(records []record, after time.Time) bool {
	n := len(records) - 1
	if n < 0 || records[n].removed || records[n].thing.leaving() {
		return false
	}
	for ; n > 0 && records[n].at.After(after); n-- {
		if records[n-1].says {
			return true
		}
	}
	return false
}

// floor judges only the deletion of Machines that are available.
func floor(j *judge) {
	all := j.owned()
	least := j.terms.Desired - j.terms.Unavailable
	for _, m := range all {
		n, found := j.deletion(m, j.terms.Managers)
		if !found || n == 0 || !m.records[n-1].says {
			continue
		}
		now := m.records[n]
		left := 0
		for _, other := range all {
			n := other.before(func(r record) bool { return r.version <= now.version })
			if other != m && (j.holdsAt(other, n, now.at) || wasAvailableAfter(other.records[:n], now.at.Add(-lately))) {
				left++
			}
		}
		if left < least {
			j.broken(now.at, "%s is deleted, and %d available Machines are left of at least %d", m.name, left, least)
		}
	}
}

func instanceFirst(j *judge) {
	instances := j.instancesOf()
	for _, m := range j.owned() {
		gone, is := m.removal()
		if !is {
			continue
		}
		for _, node := range instances[m.uid] {
			if end, removed := node.removal(); removed && !end.at.After(gone.at) || j.mayHave(node, node.last().at, gone.at) {
				continue
			}
			j.broken(gone.at, "%s is gone, and its instance %s is not", m.name, node.name)
		}
	}
}
