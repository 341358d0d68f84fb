package propagate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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

	labelMarks, ledgerAndMarks := set(p.LabelMarks), set(p.AnnotationMarks)
	for _, key := range []string{p.Ledger.Labels, p.Ledger.Annotations, p.Ledger.Taints, p.Ledger.Applied} {
		ledgerAndMarks[key] = true
	}
	var now applied
	now.Metadata.Labels = modelMap(want.Labels, last.Metadata.Labels, d.Labels, d.AddLabels, p.Labels, labelMarks)
	now.Metadata.Annotations = modelMap(want.Annotations, last.Metadata.Annotations,
		d.Annotations, d.AddAnnotations, p.Annotations, ledgerAndMarks)
	modelMarks(want.Labels, p.LabelMarks, d.Owner)
	modelMarks(want.Annotations, p.AnnotationMarks, d.Owner)
	now.Spec.Taints = modelTaints(p, want, d, last.Spec.Taints, initialized)
	modelLedger(p, node, want, d, last, now, initialized)
	return want
}

func set(marks []Mark) map[string]bool {
	keys := map[string]bool{}
	for _, mark := range marks {
		keys[mark.Key] = true
	}
	return keys
}

// lastOf reads the ledger, with values if it has them.
func lastOf(p *Policy, node *corev1.Node) (last applied, initialized bool) {
	if p.Ledger.Applied != "" {
		text, found := node.Annotations[p.Ledger.Applied]
		_ = json.Unmarshal([]byte(text), &last)
		return last, found
	}
	keys := func(name string) m {
		text, found := node.Annotations[name]
		initialized = initialized || (name != "" && found)
		all := m{}
		for key := range strings.SplitSeq(text, ",") {
			all[key] = ""
		}
		delete(all, "")
		return all
	}
	last.Metadata.Labels, last.Metadata.Annotations = keys(p.Ledger.Labels), keys(p.Ledger.Annotations)
	for entry := range keys(p.Ledger.Taints) {
		key, effect, _ := strings.Cut(entry, ":")
		last.Spec.Taints = append(last.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
	}
	if p.Ledger.Taints == "" {
		initialized = true
		for _, taint := range node.Spec.Taints {
			initialized = initialized && findTaint(p.StartupTaints, taint.Key, taint.Effect) < 0
		}
	}
	return last, initialized
}

// modelMap changes a map, and returns the part to remember.
func modelMap(into, last, from, add m, pick Selection, own map[string]bool) m {
	wanted, weak := m{}, map[string]bool{}
	for key, value := range from {
		if pick.Contains(key) {
			wanted[key], weak[key] = value, pick.OnlyMissing
		}
	}
	for key, value := range add {
		wanted[key], weak[key] = value, false
	}
	maps.DeleteFunc(wanted, func(key, _ string) bool { return own[key] })
	for key := range last {
		if _, ok := wanted[key]; !ok && !own[key] {
			delete(into, key)
		}
	}
	for key, value := range wanted {
		_, there := into[key]
		_, mine := last[key]
		if weak[key] && there {
			if !mine {
				delete(wanted, key)
			}
			continue
		}
		into[key] = value
	}
	return wanted
}

func modelMarks(into m, marks []Mark, owner Owner) {
	if owner == (Owner{}) {
		return
	}
	for _, mark := range marks {
		delete(into, mark.Key)
		if text, ok := owner.says(mark.Field, ""); ok {
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
		if mode := modelMode(p, t); !in(banned, t.Taint) {
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

func modelMode(p *Policy, t Taint) Propagation {
	for _, mode := range []Propagation{t.Propagation, p.Taints} {
		if mode != "" {
			return mode
		}
	}
	return Always
}

func modelLedger(p *Policy, node, want *corev1.Node, d Desired, last, now applied, initialized bool) {
	write := func(name, text string) {
		if _, found := want.Annotations[name]; name != "" && (found || text != "") {
			want.Annotations[name] = text
		}
	}
	if p.Ledger.Applied != "" {
		if text, _ := json.Marshal(now); !sameApplied(last, now) {
			write(p.Ledger.Applied, string(text))
		}
		return
	}
	write(p.Ledger.Labels, strings.Join(slices.Sorted(maps.Keys(now.Metadata.Labels)), ","))
	write(p.Ledger.Annotations, strings.Join(slices.Sorted(maps.Keys(now.Metadata.Annotations)), ","))
	changed := !maps.Equal(node.Labels, want.Labels) || !maps.Equal(node.Annotations, want.Annotations) ||
		!slices.Equal(node.Spec.Taints, want.Spec.Taints)
	once := slices.ContainsFunc(d.Taints, func(t Taint) bool { return modelMode(p, t) == OnInitialization })
	taints := string(taintList(now.Spec.Taints))
	if p.Ledger.Taints != "" && !initialized && (changed || once) {
		want.Annotations[p.Ledger.Taints] = taints
	}
	write(p.Ledger.Taints, taints)
}

func sameApplied(a, b applied) bool {
	return maps.Equal(a.Metadata.Labels, b.Metadata.Labels) && maps.Equal(a.Metadata.Annotations, b.Metadata.Annotations) &&
		slices.Equal(slices.SortedFunc(slices.Values(a.Spec.Taints), compareTaints), b.Spec.Taints)
}
