package propagate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Diff returns the patch that gives a Node what it should have, and true; or false when the Node has it already. In one patch
// it sets labels and annotations, removes those that were remembered and are not wanted any more, updates the remembered keys,
// and removes the uninitialized taint.
//
// On a value that both sides set, Desired wins, and the key is remembered from then on. The Node is read, never changed. It
// allocates nothing when there is nothing to do.
func Diff(node *corev1.Node, d Desired) (Patch, bool) {
	p := Patch{
		labels:      labelChanges(node, d.Labels),
		annotations: annotationChanges(node, d),
		taint:       startupTaint(node.Spec.Taints),
	}
	if len(p.labels) == 0 && len(p.annotations) == 0 && p.taint < 0 {
		return Patch{}, false
	}
	p.uid = node.UID
	p.noLabels = len(node.Labels) == 0
	p.noAnnotations = len(node.Annotations) == 0
	if p.taint >= 0 {
		p.taintValue = node.Spec.Taints[p.taint]
	}
	slices.SortFunc(p.labels, byKey)
	slices.SortFunc(p.annotations, byKey)
	return p, true
}

// change takes one key of a map from one state to another.
type change struct {
	key      string
	from, to value
}

// value is a string or its absence, which is not the same as "".
type value struct {
	text    string
	present bool
}

func byKey(a, b change) int { return strings.Compare(a.key, b.key) }

func labelChanges(node *corev1.Node, want map[string]string) []change {
	tracked := node.Annotations[LabelsFromMachineAnnotation]
	return appendChanges(nil, node.Labels, want, tracked, nothingReserved)
}

func annotationChanges(node *corev1.Node, d Desired) []change {
	have := node.Annotations
	tracked := have[AnnotationsFromMachineAnnotation]
	changes := appendChanges(nil, have, d.Annotations, tracked, reserved)
	if d.Owner != (Owner{}) {
		for _, a := range d.Owner.annotations() {
			changes = appendChange(changes, have, a.key, value{a.value, a.value != ""})
		}
	}
	changes = appendTracker(changes, have, LabelsFromMachineAnnotation, d.Labels, nothingReserved)
	return appendTracker(changes, have, AnnotationsFromMachineAnnotation, d.Annotations, reserved)
}

func nothingReserved(string) bool { return false }

func appendChanges(to []change, have, want map[string]string, tracked string, skip func(string) bool) []change {
	for key, v := range want {
		if !skip(key) {
			to = appendChange(to, have, key, value{v, true})
		}
	}
	for rest := tracked; rest != ""; {
		var key string
		key, rest, _ = strings.Cut(rest, ",")
		if _, wanted := want[key]; wanted || skip(key) || contains(to, key) {
			continue // contains: a list that names a key twice must not remove it twice
		}
		to = appendChange(to, have, key, value{})
	}
	return to
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

// appendTracker updates the list of remembered keys. No annotation and an empty one both say that nothing is remembered;
// Cluster API writes the empty one, so neither is worth a write.
func appendTracker(to []change, have map[string]string, name string, want map[string]string, skip func(string) bool) []change {
	if lists(have[name], want, skip) {
		return to
	}
	keys := make([]string, 0, len(want))
	for key := range want {
		if !skip(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return appendChange(to, have, name, value{strings.Join(keys, ","), true})
}

// lists says, without building the list, whether tracked is the sorted list of the wanted keys.
func lists(tracked string, want map[string]string, skip func(string) bool) bool {
	open := 0
	for key := range want {
		if !skip(key) {
			open++
		}
	}
	last := ""
	for rest := tracked; rest != ""; open-- {
		var key string
		key, rest, _ = strings.Cut(rest, ",")
		if _, wanted := want[key]; !wanted || skip(key) || key <= last {
			return false
		}
		last = key
	}
	return open == 0
}

// startupTaint returns the index of the uninitialized taint, or -1. A valid Node has one taint per key and effect.
func startupTaint(taints []corev1.Taint) int {
	for i := range taints {
		if taints[i].Key == UninitializedTaintKey && taints[i].Effect == UninitializedTaintEffect {
			return i
		}
	}
	return -1
}
