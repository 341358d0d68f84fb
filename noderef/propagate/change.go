package propagate

import (
	"slices"
	"strings"
)

// change is a change of one key of a map.
type change struct {
	key      string
	from, to value
	// tested means that the decision depends on the old value, so the patch tests it.
	tested bool
}

// value is a string or its absence, which differs from "".
type value struct {
	text    string
	present bool
}

func byKey(a, b change) int { return compare(a.key, b.key) }

func compare(a, b string) int { return strings.Compare(a, b) }

// changes returns the changes of one map, without the ledger and the marks.
func (s *side) changes() []change {
	var changes []change
	for key, text := range s.wanted {
		changes = appendChange(changes, s.have, key, value{text, true})
	}
	for key := range s.listed.entries {
		if s.wants(key) || s.own(key) || contains(changes, key) {
			continue // contains: a list with a repeated key must not remove it twice
		}
		changes = appendChange(changes, s.have, key, value{})
	}
	return changes
}

func contains(changes []change, key string) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return c.key == key })
}

func appendChange(to []change, have map[string]string, key string, want value) []change {
	text, present := have[key]
	if from := (value{text, present}); from != want {
		to = append(to, change{key: key, from: from, to: want})
	}
	return to
}

func appendMarks(to []change, have map[string]string, marks []Mark, owner Owner) []change {
	if owner == (Owner{}) {
		return to
	}
	for _, mark := range marks {
		text, present := owner.says(mark.Field)
		to = appendChange(to, have, mark.Key, value{text, present})
	}
	return to
}
