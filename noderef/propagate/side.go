package propagate

import (
	"maps"
	"regexp"
	"slices"
)

// side is one of the two maps of a Node (labels or annotations): what the Node has, and what its owner wants.
type side struct {
	have, want map[string]string
	// policy is nil for labels; the keys of the policy itself are annotations.
	policy *Policy
	listed []string // recorded
}

// newSide returns a side that wants the selected keys of own, and all of add.
func newSide(have, own, add map[string]string, pick []*regexp.Regexp, policy *Policy, listed []string) side {
	s := side{have: have, want: map[string]string{}, policy: policy, listed: listed}
	for key, value := range own {
		if selects(pick, key) {
			s.want[key] = value
		}
	}
	maps.Copy(s.want, add)
	maps.DeleteFunc(s.want, func(key, _ string) bool { return s.own(key) })
	return s
}

// own reports whether a key belongs to the policy itself. Otherwise one path could get two operations.
func (s *side) own(key string) bool {
	return s.policy != nil && (s.policy.Ledger.keeps(key) || marked(s.policy.AnnotationMarks, key))
}

// changes returns the changes of the map, without the ledger and the marks.
func (s *side) changes() []change {
	var changes []change
	for key, text := range s.want {
		changes = appendChange(changes, s.have, key, value{text, true})
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(s.listed))) {
		if _, wanted := s.want[key]; !wanted && !s.own(key) {
			changes = appendChange(changes, s.have, key, value{})
		}
	}
	return changes
}
