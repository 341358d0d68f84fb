package drain

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// answer is whether a selector selects an object. Unclear means that the selector is invalid or the labels were not read.
type answer uint8

const (
	no answer = iota
	unclear
	yes
)

func (a answer) and(b answer) answer { return min(a, b) }
func (a answer) or(b answer) answer  { return max(a, b) }

// selector is a label selector without its invalid requirements: it does not select what the valid ones exclude.
type selector struct {
	valid  labels.Selector // nil: no requirements
	broken bool
}

// newSelector parses a selector; nil and empty ones match everything. The error describes the first invalid requirement. The selector can
// be used also with an error.
func newSelector(from *metav1.LabelSelector) (selector, error) {
	if from == nil {
		return selector{}, nil
	}
	s := selector{}
	var first error
	add := func(part *metav1.LabelSelector) {
		parsed, err := metav1.LabelSelectorAsSelector(part)
		if err != nil {
			s.broken = true
			if first == nil {
				first = err
			}
			return
		}
		if requirements, _ := parsed.Requirements(); len(requirements) > 0 {
			if s.valid == nil {
				s.valid = labels.NewSelector()
			}
			s.valid = s.valid.Add(requirements...)
		}
	}
	add(&metav1.LabelSelector{MatchLabels: from.MatchLabels})
	for i := range from.MatchExpressions {
		add(&metav1.LabelSelector{MatchExpressions: from.MatchExpressions[i : i+1]})
	}
	return s, first
}

// matches answers for an object; known is false if its labels were not read.
func (s selector) matches(of map[string]string, known bool) answer {
	switch {
	case s.valid != nil && !known:
		return unclear
	case s.valid != nil && !s.valid.Matches(labels.Set(of)):
		return no
	case s.broken:
		return unclear
	default:
		return yes
	}
}

// pair is one entry of a rule; both selectors have to match.
type pair struct{ own, outer selector }

// anyOf answers for alternative entries; no entries select everything.
func anyOf(pairs []pair, each func(pair) answer) answer {
	if len(pairs) == 0 {
		return yes
	}
	best := no
	for _, p := range pairs {
		if best = best.or(each(p)); best == yes {
			break
		}
	}
	return best
}
