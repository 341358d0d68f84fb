package phases

import (
	"errors"
	"fmt"
	"reflect"
)

// maxFacts is how many facts a table may depend on: New looks at every combination of them.
const maxFacts = 16

// errFacts is the error of New for facts that are no struct of at most maxFacts exported bools.
var errFacts = errors.New("facts must be a struct of exported bools")

// everyFacts returns all combinations of facts.
func everyFacts[F comparable]() ([]F, error) {
	facts := reflect.TypeFor[F]()
	if facts.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %s is none", errFacts, facts)
	}
	for field := range facts.Fields() {
		if !field.IsExported() {
			return nil, fmt.Errorf("%w: %s.%s is not exported", errFacts, facts, field.Name)
		} else if field.Type.Kind() != reflect.Bool {
			return nil, fmt.Errorf("%w: %s.%s is a %s", errFacts, facts, field.Name, field.Type)
		}
	}
	if facts.NumField() > maxFacts {
		return nil, fmt.Errorf("%w: %s has %d, at most %d are allowed", errFacts, facts, facts.NumField(), maxFacts)
	}
	all := make([]F, 1<<facts.NumField())
	for bits := range all {
		for i := range facts.NumField() {
			reflect.ValueOf(&all[bits]).Elem().Field(i).SetBool(bits>>i&1 == 1)
		}
	}
	return all, nil
}
