package contract

// Leaf is a field of a layout, or a reference, which consists of several fields.
type Leaf = leaf

// PathOf returns the first place of a field, the zero Path when the layout has none.
func PathOf(field Leaf) Path {
	_, paths := field.describe()
	if len(paths) == 0 {
		return Path{}
	}
	return paths[0]
}

// InSeconds reports whether a duration is a number of seconds rather than text.
func InSeconds(f DurationField) bool { return !f.text }

// PathsOf returns all places of a field.
func PathsOf(field Leaf) []Path {
	_, paths := field.describe()
	return paths
}

// RulesInSeconds reports whether the timeouts at a place are numbers of seconds.
func RulesInSeconds(f HealthRulesField) bool { return !f.timeout.text }
