package propagate

import "slices"

// side is one of the two maps of a Node (labels or annotations): what the Node has, and what its owner wants.
type side struct {
	have      map[string]string
	from, add map[string]string
	pick      *Selection
	// marks and ledger have the keys of the policy itself; ledger is nil for labels.
	marks  []Mark
	ledger *Ledger
	// listed is the list in the ledger.
	listed list
}

// own reports whether a key belongs to the policy itself. Otherwise one path could get two operations.
func (s *side) own(key string) bool {
	return (s.ledger != nil && s.ledger.keeps(key)) || marked(s.marks, key)
}

// wants reports whether the Node should have a key.
func (s *side) wants(key string) bool {
	if s.own(key) {
		return false
	}
	if _, added := s.add[key]; added {
		return true
	}
	_, ok := s.from[key]
	return ok && s.pick.Contains(key)
}

// wanted iterates over the keys that the Node should have, with their values.
func (s *side) wanted(yield func(key, value string) bool) {
	for key, value := range s.add {
		if !s.own(key) && !yield(key, value) {
			return
		}
	}
	for key, value := range s.from {
		if _, added := s.add[key]; added || s.own(key) || !s.pick.Contains(key) {
			continue
		}
		if !yield(key, value) {
			return
		}
	}
}

// keys returns the keys to remember.
func (s *side) keys() []string {
	var keys []string
	for key := range s.wanted {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
