package engine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Members is the table of the members of an update, such as contract.MachineUpdate. It is made from struct tags, so that a new member is
// listed where it is declared:
//
//   - write:"main" is metadata or spec, write:"status" is status. Where a layout stores a member of the status is the layout's decision:
//     it may be an annotation, so such members are part of both writes, and each write removes from its patch what it does not apply to.
//     write:"conditions" is part of the status write only;
//   - urgent: another controller waits for the value, or a later pass acts on it: it is written in the pass that sets it;
//   - stage: the start of a stage of a deletion, from which its limit counts: urgent too;
//   - record: written with the start of a stage, because the stage depends on it;
//   - quiet: no reason to write the status on its own.
//
// Safe for concurrent use.
type Members[U any] struct{ all []member }

type member struct {
	index []int
	tag   tag
}

// tag is a set of words.
type tag uint8

const (
	inMain tag = 1 << iota
	inConditions
	inStatus
	urgent
	stage
	record
	quiet

	places = inMain | inConditions | inStatus
)

// NewMembers returns the table of an update. The error names a member without a tag or with an unknown one.
func NewMembers[U any]() (Members[U], error) {
	var m Members[U]
	err := m.add(reflect.TypeFor[U](), nil, "")
	return m, err
}

func (m *Members[U]) add(t reflect.Type, at []int, inherited string) error {
	if t.Kind() != reflect.Struct {
		return fmt.Errorf("update %s is no struct", t)
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("write")
		if !tagged {
			tag = inherited
		}
		index := append(slices.Clone(at), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if err := m.add(f.Type, index, tag); err != nil {
				return err
			}
			continue
		}
		words, err := parseTag(tag)
		if err != nil {
			return fmt.Errorf("member %s of %s: %w", f.Name, t, err)
		}
		m.all = append(m.all, member{index, words})
	}
	return nil
}

func parseTag(text string) (all tag, err error) {
	words := map[string]tag{
		"main": inMain, "conditions": inConditions, "status": inStatus,
		"urgent": urgent, "stage": urgent | stage, "record": record, "quiet": quiet,
	}
	place, rest, more := strings.Cut(text, ",")
	if words[place]&places == 0 {
		return 0, fmt.Errorf(`tag write:%q: want main, status or conditions first`, text)
	}
	all = words[place]
	for word := range strings.SplitSeq(rest, ",") {
		if more && (words[word] == 0 || words[word]&places != 0) {
			return 0, fmt.Errorf(`tag write:%q: unknown word %q`, text, word)
		}
		all |= words[word]
	}
	return all, nil
}

// Main returns the part of an update for the main resource.
func (m Members[U]) Main(u U) U { return m.only(u, func(t tag) bool { return t&inConditions == 0 }) }

// Status returns the part of an update for the status subresource.
func (m Members[U]) Status(u U) U { return m.only(u, func(t tag) bool { return t&inMain == 0 }) }

// Needed returns the members of the status that a later pass depends on; with a stage that begins in this pass, those of the stage too.
func (m Members[U]) Needed(u U, begins bool) U {
	return m.only(u, func(t tag) bool {
		return t&inMain == 0 && (t&(urgent|stage) == urgent || (begins && t&(stage|record) != 0))
	})
}

// Urgent reports whether an update has a member that is written at once.
func (m Members[U]) Urgent(u *U) bool { return m.has(u, func(t tag) bool { return t&urgent != 0 }) }

// Dirty reports whether an update has a member that is a reason to write the status.
func (m Members[U]) Dirty(u *U) bool {
	return m.has(u, func(t tag) bool { return t&(inMain|quiet) == 0 })
}

// Empty reports whether an update changes nothing.
func (m Members[U]) Empty(u *U) bool { return !m.has(u, func(tag) bool { return true }) }

func (m Members[U]) has(u *U, is func(tag) bool) bool {
	v := reflect.ValueOf(u).Elem()
	for _, f := range m.all {
		if is(f.tag) && !empty(v.FieldByIndex(f.index)) {
			return true
		}
	}
	return false
}

func (m Members[U]) only(u U, is func(tag) bool) U {
	v := reflect.ValueOf(&u).Elem() // u is a copy
	for _, f := range m.all {
		if !is(f.tag) {
			v.FieldByIndex(f.index).SetZero()
		}
	}
	return u
}

func empty(v reflect.Value) bool {
	if v.Kind() == reflect.Map || v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}
