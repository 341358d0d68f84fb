package propagate

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// memories are what a ledger remembers.
type memories struct {
	labels, annotations map[string]bool
	taints              []corev1.Taint
}

// model computes the wanted Node in the simplest way: it builds whole maps and compares nothing.
func model(p *Policy, node *corev1.Node, d Desired) *corev1.Node {
	want := node.DeepCopy()
	if want.Labels == nil {
		want.Labels = m{}
	}
	if want.Annotations == nil {
		want.Annotations = m{}
	}
	last, initialized := lastOf(p, node)
	own := map[string]bool{p.Ledger.Labels: true, p.Ledger.Annotations: true, p.Ledger.Taints: true}
	for _, mark := range p.AnnotationMarks {
		own[mark.Key] = true
	}
	now := memories{
		labels:      modelMap(want.Labels, last.labels, d.Labels, d.AddLabels, p.Labels, nil),
		annotations: modelMap(want.Annotations, last.annotations, d.Annotations, d.AddAnnotations, p.Annotations, own),
	}
	modelMarks(want.Annotations, p.AnnotationMarks, d.Owner)
	now.taints = modelTaints(p, want, d, last.taints, initialized)
	modelLedger(p, node, want, d, now, initialized)
	return want
}

// lastOf reads the ledger.
func lastOf(p *Policy, node *corev1.Node) (last memories, initialized bool) {
	keys := func(name string) map[string]bool {
		text, found := node.Annotations[name]
		initialized = initialized || (name != "" && found)
		all := map[string]bool{}
		for key := range strings.SplitSeq(text, ",") {
			all[key] = true
		}
		delete(all, "")
		return all
	}
	last.labels, last.annotations = keys(p.Ledger.Labels), keys(p.Ledger.Annotations)
	for entry := range keys(p.Ledger.Taints) {
		key, effect, _ := strings.Cut(entry, ":")
		last.taints = append(last.taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
	}
	if p.Ledger.Taints == "" {
		initialized = true
		for _, taint := range node.Spec.Taints {
			initialized = initialized && findTaint(p.StartupTaints, taint.Key, taint.Effect) < 0
		}
	}
	return last, initialized
}

// modelMap changes a map, and returns the keys to remember.
func modelMap(into m, last map[string]bool, from, add m, pick []*regexp.Regexp, own map[string]bool) map[string]bool {
	wanted, keys := maps.Clone(from), map[string]bool{}
	if wanted == nil {
		wanted = m{}
	}
	maps.DeleteFunc(wanted, func(key, _ string) bool { return !selects(pick, key) })
	maps.Copy(wanted, add)
	maps.DeleteFunc(wanted, func(key, _ string) bool { return own[key] })
	for key := range last {
		if _, ok := wanted[key]; !ok && !own[key] {
			delete(into, key)
		}
	}
	for key, value := range wanted {
		into[key], keys[key] = value, true
	}
	return keys
}

func modelMarks(into m, marks []Mark, owner Owner) {
	if owner == (Owner{}) {
		return
	}
	for _, mark := range marks {
		delete(into, mark.Key)
		if text := mark.Value(owner); text != "" {
			into[mark.Key] = text
		}
	}
}

// modelTaints changes the taints, and returns those to remember.
func modelTaints(p *Policy, want *corev1.Node, d Desired, last []corev1.Taint, initialized bool) []corev1.Taint {
	banned := append(slices.Clone(p.StartupTaints), d.WithoutTaints...)
	in := func(all []corev1.Taint, t corev1.Taint) bool { return findTaint(all, t.Key, t.Effect) >= 0 }
	var mentioned []corev1.Taint
	byMode := map[Propagation][]corev1.Taint{}
	for _, t := range d.Taints {
		if in(mentioned, t.Taint) {
			continue
		}
		mentioned = append(mentioned, t.Taint)
		if mode := modelMode(t); !in(banned, t.Taint) {
			byMode[mode] = append(byMode[mode], t.Taint)
		}
	}
	enforced := slices.Clone(byMode[Always])
	if !initialized {
		enforced = append(enforced, byMode[OnInitialization]...)
	}
	want.Spec.Taints = slices.DeleteFunc(want.Spec.Taints, func(t corev1.Taint) bool {
		return in(banned, t) || (in(last, t) && !in(mentioned, t))
	})
	for _, t := range mentioned { // in the order of the owner
		at := findTaint(want.Spec.Taints, t.Key, t.Effect)
		if at < 0 && (in(enforced, t) || in(byMode[WhenMissing], t)) {
			want.Spec.Taints = append(want.Spec.Taints, t)
		} else if at >= 0 && in(enforced, t) {
			want.Spec.Taints[at].Value = t.Value
		}
	}
	return slices.SortedFunc(slices.Values(byMode[Always]), compareTaints)
}

func modelMode(t Taint) Propagation {
	if t.Propagation != "" {
		return t.Propagation
	}
	return Always
}

func modelLedger(p *Policy, node, want *corev1.Node, d Desired, now memories, initialized bool) {
	write := func(name, text string) {
		if _, found := want.Annotations[name]; name != "" && (found || text != "") {
			want.Annotations[name] = text
		}
	}
	write(p.Ledger.Labels, strings.Join(slices.Sorted(maps.Keys(now.labels)), ","))
	write(p.Ledger.Annotations, strings.Join(slices.Sorted(maps.Keys(now.annotations)), ","))
	changed := !maps.Equal(node.Labels, want.Labels) || !maps.Equal(node.Annotations, want.Annotations) ||
		!slices.Equal(node.Spec.Taints, want.Spec.Taints)
	once := slices.ContainsFunc(d.Taints, func(t Taint) bool { return modelMode(t) == OnInitialization })
	taints := taintList(now.taints)
	if p.Ledger.Taints != "" && !initialized && (changed || once) {
		want.Annotations[p.Ledger.Taints] = taints
	}
	write(p.Ledger.Taints, taints)
}

// taintList is the content of the ledger.
func taintList(taints []corev1.Taint) string {
	var entries []string
	for _, t := range taints {
		entries = append(entries, t.Key+":"+string(t.Effect))
	}
	slices.Sort(entries)
	return strings.Join(slices.Compact(entries), ",")
}

func compareTaints(a, b corev1.Taint) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Effect), string(b.Effect)))
}
