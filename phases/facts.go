package phases

import (
	"errors"
	"fmt"
	"reflect"
)

// MaxFacts is how many facts a table may depend on: New looks at every combination of them.
const MaxFacts = 16

// ErrFacts matches the error of New for facts that are no struct of at most MaxFacts exported bools.
var ErrFacts = errors.New("facts must be a struct of exported bools")

// everyFacts returns all combinations of facts.
func everyFacts[F comparable]() ([]F, error) {
	places, err := boolsOf(reflect.TypeFor[F](), nil)
	if err != nil {
		return nil, err
	}
	if len(places) > MaxFacts {
		return nil, fmt.Errorf("%w: %s has %d, at most %d are allowed", ErrFacts, reflect.TypeFor[F](), len(places), MaxFacts)
	}
	all := make([]F, 1<<len(places))
	for bits := range all {
		facts := reflect.ValueOf(&all[bits]).Elem()
		for i, place := range places {
			facts.FieldByIndex(place).SetBool(bits>>i&1 == 1)
		}
	}
	return all, nil
}

// boolsOf returns where the bools of a struct are.
func boolsOf(t reflect.Type, at []int) ([][]int, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %s is none", ErrFacts, t)
	}
	var places [][]int
	for i := range t.NumField() {
		field := t.Field(i)
		place := append(append([]int(nil), at...), i)
		switch {
		case !field.IsExported():
			return nil, fmt.Errorf("%w: %s.%s is not exported", ErrFacts, t, field.Name)
		case field.Type.Kind() == reflect.Bool:
			places = append(places, place)
		case field.Type.Kind() == reflect.Struct:
			inner, err := boolsOf(field.Type, place)
			if err != nil {
				return nil, err
			}
			places = append(places, inner...)
		default:
			return nil, fmt.Errorf("%w: %s.%s is a %s", ErrFacts, t, field.Name, field.Type)
		}
	}
	return places, nil
}
