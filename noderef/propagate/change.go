package propagate

import "strings"

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

func byKey(a, b change) int { return strings.Compare(a.key, b.key) }

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
		text := ""
		if mark.Value != nil {
			text = mark.Value(owner)
		}
		to = appendChange(to, have, mark.Key, value{text, text != ""})
	}
	return to
}
