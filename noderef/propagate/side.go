package propagate

import "slices"

// side is one of the two maps of a Node: what it has, and what its owner wants in it.
type side struct {
	have      map[string]string
	from, add map[string]string
	pick      *Selection
	// marks and ledger have keys that the policy itself decides about; ledger is nil for labels.
	marks  []Mark
	ledger *Ledger
	// listed is what the ledger remembers.
	listed list
}

// own says that the policy itself decides about a key. A second writer would put two operations on one path.
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

// wish is a value that is wanted. A weak one does not replace the value of another writer.
type wish struct {
	text string
	weak bool
}

// wanted ranges over the keys that the Node should have.
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

// ours reports whether a wanted key is to be remembered: always when it wins, else only when the Node did not have it.
func (s *side) ours(key string, w wish) bool {
	if !w.weak || s.listed.has(key) {
		return true
	}
	_, foreign := s.have[key]
	return !foreign
}

// keys returns what is to be remembered.
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
