package contract

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// placesAt returns places that are written with dots between their keys.
func placesAt(places ...string) []Path {
	paths := make([]Path, 0, len(places))
	for _, place := range places {
		paths = append(paths, NewPath(strings.Split(place, ".")...))
	}
	return paths
}

// covers reports whether a place is one of some places, or inside of one.
func covers(places []Path, at Path) bool {
	return slices.ContainsFunc(places, func(p Path) bool {
		return len(p.segments) <= len(at.segments) && slices.Equal(p.segments, at.segments[:len(p.segments)])
	})
}

// maxDifferences bounds what TemplateDiff returns.
const maxDifferences = 16

var errNothingMade = errors.New("the layouts do not say alike what a template makes Machines of (MadeOf)")

// madeParts are the places of what a template makes Machines of, the references last.
func (l *MachineTemplateLayout) madeParts() []Path {
	return append(slices.Clone(l.MadeOf), l.Bootstrap.at(), l.Infrastructure.at())
}

// at returns the place of the whole reference, the zero Path when there is none.
func (f RefField) at() Path {
	if !f.exists() {
		return Path{}
	}
	segments := f.Name.path.segments
	return NewPath(segments[:len(segments)-1]...)
}

// templateDiff compares what two templates make Machines of.
func templateDiff(of *ReplicatedLayout, deployment map[string]any, in *ReplicatedLayout, set map[string]any) ([]string, error) {
	own, err := ownLabels(of, deployment, in, set)
	if err != nil {
		return nil, err
	}
	mine, theirs := of.Template.madeParts(), in.Template.madeParts()
	if len(of.Template.MadeOf) == 0 || len(mine) != len(theirs) {
		return nil, errNothingMade
	}
	labels, refs := of.Template.Labels.path.String(), mine[len(mine)-2:]
	d := differences{skip: func(at Path) bool {
		key, inLabels := strings.CutPrefix(at.text, labels+".")
		return inLabels && own[key] || at.text == refs[0].text || at.text == refs[1].text
	}}
	for i, at := range of.Template.MadeOf {
		want, _, err := lookup(at.segments, deployment)
		if err != nil {
			return nil, err
		}
		have, _, err := lookup(theirs[i].segments, set)
		if err != nil {
			return nil, err
		}
		d.compare(at, want, have)
	}
	r, s := reader{obj: deployment}, reader{obj: set}
	if r.ref(of.Template.Bootstrap) != s.ref(in.Template.Bootstrap) {
		d.places = append(d.places, refs[0].text)
	}
	if r.ref(of.Template.Infrastructure) != s.ref(in.Template.Infrastructure) {
		d.places = append(d.places, refs[1].text)
	}
	slices.Sort(d.places)
	return slices.Clip(d.places[:min(len(d.places), maxDifferences)]), errors.Join(r.err, s.err)
}

// ownLabels are the labels that tell the Machines of a set from those of the other sets of its deployment: those that its selector asks
// for and that of the deployment does not.
func ownLabels(of *ReplicatedLayout, deployment map[string]any, in *ReplicatedLayout, set map[string]any) (map[string]bool, error) {
	all, _, err := of.Selector.Get(deployment)
	if err != nil {
		return nil, err
	}
	some, _, err := in.Selector.Get(set)
	if err != nil || some == nil {
		return nil, err
	}
	own := map[string]bool{}
	for key := range some.MatchLabels {
		if all == nil || all.MatchLabels[key] == "" {
			own[key] = true
		}
	}
	return own, nil
}

// copyTemplate gives a deployment what a set makes its Machines of.
func copyTemplate(in *ReplicatedLayout, set map[string]any, of *ReplicatedLayout, deployment map[string]any) error {
	own, err := ownLabels(of, deployment, in, set)
	if err != nil {
		return err
	}
	from, into := in.Template.madeParts(), of.Template.madeParts()
	if len(in.Template.MadeOf) == 0 || len(from) != len(into) {
		return errNothingMade
	}
	for i := range from {
		if err := copyContent(set, from[i], deployment, into[i]); err != nil {
			return err
		}
	}
	labels := of.Template.Labels.path
	if !covers(of.Template.MadeOf, labels) {
		return nil
	}
	for key := range own {
		if err := NewPath(append(labels.Segments(), key)...).clear(deployment); err != nil {
			return err
		}
	}
	return nil
}

// differences collects the places in which contents differ.
type differences struct {
	skip   func(at Path) bool
	places []string
}

func (d *differences) compare(at Path, want, have any) {
	if equal(want, have) || d.skip(at) || blank(want) && blank(have) {
		return
	}
	mine, ok := want.(map[string]any)
	theirs, ok2 := have.(map[string]any)
	if want != nil && !ok || have != nil && !ok2 {
		d.places = append(d.places, clipped(at.text))
		return
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(mine)), maps.Keys(theirs))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		d.compare(NewPath(append(at.Segments(), key)...), mine[key], theirs[key])
	}
}

// blank reports whether content says nothing: null, the empty text, or an object or a list of nothing.
func blank(content any) bool {
	switch content := content.(type) {
	case nil:
		return true
	case string:
		return content == ""
	case []any:
		return len(content) == 0
	case map[string]any:
		for _, member := range content {
			if !blank(member) {
				return false
			}
		}
		return true
	}
	return false
}
