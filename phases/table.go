package phases

import (
	"errors"
	"fmt"
	"slices"
)

// Rule applies its Decision when its function When returns true.
type Rule[F comparable] struct {
	// Decision requires a Phase.
	Decision
	// When must be pure; nil always matches.
	When func(F) bool
}

// Table is an ordered list of rules over facts F, made by New. It is immutable and safe for concurrent use. The zero Table has no rules.
type Table[F comparable] struct{ rules []Rule[F] }

// errNoDefault is the error of New for a table without a phase for some facts.
var errNoDefault = errors.New("the last rule must always hold (When nil)")

// New returns a table with a copy of the given rules. Every rule must have a phase, and the last rule a nil When. The error joins all
// problems.
func New[F comparable](rules ...Rule[F]) (*Table[F], error) {
	var errs []error
	for i, r := range rules {
		if r.Phase == "" {
			errs = append(errs, fmt.Errorf("rule %d has no phase", i))
		}
	}
	if len(rules) == 0 || rules[len(rules)-1].When != nil {
		errs = append(errs, errNoDefault)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Table[F]{rules: slices.Clone(rules)}, nil
}

// first returns the index of the first matching rule, -1 if there is none.
func (t *Table[F]) first(f F) int {
	for i := range t.rules {
		if t.rules[i].When == nil || t.rules[i].When(f) {
			return i
		}
	}
	return -1
}

// Compute returns the decision of the first matching rule; a table of New always has one. It allocates nothing unless a rule does.
func (t *Table[F]) Compute(f F) Decision {
	if at := t.first(f); at >= 0 {
		return t.rules[at].Decision
	}
	return Decision{}
}

// Rules returns a copy of the rules, to derive another dialect with New.
func (t *Table[F]) Rules() []Rule[F] { return slices.Clone(t.rules) }
