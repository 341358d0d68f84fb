package phases

import (
	"errors"
	"fmt"
	"slices"
)

// Rule gives its Decision when When holds.
type Rule[F comparable] struct {
	// Decision needs a Phase.
	Decision
	// When must be pure; nil always holds.
	When func(F) bool
}

// Table is an ordered list of rules over facts F, made by New. It is immutable and safe for concurrent use. The zero Table has
// no rules and no phases.
type Table[F comparable] struct{ rules []Rule[F] }

// errNoDefault is the error of New for a table that leaves some facts without a phase.
var errNoDefault = errors.New("the last rule must always hold (When nil)")

// New returns a table of the given rules, of which it keeps a copy. Every rule has a phase, and the last rule has a nil When. The error
// joins all that is wrong.
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

// first returns the rule that decides, -1 without one.
func (t *Table[F]) first(f F) int {
	for i := range t.rules {
		if t.rules[i].When == nil || t.rules[i].When(f) {
			return i
		}
	}
	return -1
}

// Compute returns the decision of the first rule that holds, for a table of New always one with a phase. It allocates
// nothing unless a rule does.
func (t *Table[F]) Compute(f F) Decision {
	if at := t.first(f); at >= 0 {
		return t.rules[at].Decision
	}
	return Decision{}
}

// Rules returns a copy of the rules, for an embedder to insert its own and make a dialect with New.
func (t *Table[F]) Rules() []Rule[F] { return slices.Clone(t.rules) }
