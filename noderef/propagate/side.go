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

// want returns the value that a key should have.
func (s *side) want(key string) (string, bool) {
	if s.own(key) {
		return "", false
	}
	if value, ok := s.add[key]; ok {
		return value, true
	}
	value, ok := s.from[key]
	return value, ok && s.pick.Contains(key)
}

// wish is a wanted value. A weak wish does not replace the value of another writer.
type wish struct {
	text string
	weak bool
}

// wanted iterates over the keys that the Node should have.
func (s *side) wanted(yield func(string, wish) bool) {
	for key, text := range s.add {
		if !s.own(key) && !yield(key, wish{text: text}) {
			return
		}
	}
	for key, text := range s.from {
		if _, added := s.add[key]; added || s.own(key) || !s.pick.Contains(key) {
			continue
		}
		if !yield(key, wish{text: text, weak: s.pick.OnlyMissing}) {
			return
		}
	}
}

// ours reports whether a wanted key is remembered: always if it overrides, otherwise only if the Node did not have it.
func (s *side) ours(key string, w wish) bool {
	if !w.weak || s.listed.has(key) {
		return true
	}
	_, foreign := s.have[key]
	return !foreign
}

// keys returns the keys to remember.
func (s *side) keys() []string {
	var keys []string
	for key, w := range s.wanted {
		if s.ours(key, w) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
