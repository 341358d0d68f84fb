package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

type conditionType = metav1.Condition

// malformation is one value at one place, and what is said about it.
type malformation struct {
	what  string
	at    []string
	value any
	// path, want and found are what the error names; an empty want is any.
	path, want, found string
	// fine says that there is no error.
	fine bool
	// above says that the value stands above the leaf, where others are read from too.
	above bool
	// large values are not copied.
	large bool
}

func (m malformation) message() string { return m.path + ": want " + m.want + ", found " + m.found }

func (m malformation) says(err error) bool {
	if err == nil {
		return false
	}
	if m.want == "" {
		return strings.Contains(err.Error(), m.path+": want ") && strings.Contains(err.Error(), ", found "+m.found)
	}
	return strings.Contains(err.Error(), m.message())
}

const (
	manyBytes   = 10 << 20
	manyEntries = 100_000
)

var (
	hugeText = strings.Repeat("x", manyBytes)
	hugeList = slices.Repeat([]any{"x"}, manyEntries)
)

// values of every JSON type, by the name that errors give it. Those that can be huge are there twice.
func jsonValues() []malformation {
	return []malformation{
		{what: "text", value: "text", found: "string"}, {what: "10 MB of text", value: hugeText, found: "string", large: true},
		{what: "a bool", value: true, found: "bool"}, {what: "an integer", value: int64(7), found: "integer"},
		{what: "a number", value: 1.5, found: "number"}, {what: "a whole number as a float", value: 3.0, found: "number"},
		{what: "an object", value: map[string]any{}, found: "object"}, {what: "a list", value: []any{}, found: "list"},
		{what: "100,000 entries", value: hugeList, found: "list", large: true}, {what: "null", found: "null"},
	}
}

// wrongTypes are the values of every type but the wanted one.
func wrongTypes(at []string, want string, accepted ...string) []malformation {
	var wrong []malformation
	for _, m := range jsonValues() {
		if slices.Contains(accepted, m.found) {
			continue
		}
		m.at, m.path, m.want = at, strings.Join(at, "."), want
		wrong = append(wrong, m)
	}
	return wrong
}

// above are the values that are no object in every place on the way to a leaf. A null there is as good as nothing.
func above(at []string) []malformation {
	var wrong []malformation
	for depth := 1; depth < len(at); depth++ {
		for _, m := range wrongTypes(at[:depth], "object", "object") {
			m.above, m.fine = true, m.found == "null"
			wrong = append(wrong, m)
		}
	}
	return wrong
}

// malformations are what can be wrong with a leaf of a layout, down to the members of its entries.
func malformations(t *testing.T, c malformedCase, name string, l leaf) []malformation {
	t.Helper()
	var all []malformation
	paths := []contract.Path{contract.PathOf(l)}
	if conditions, ok := l.(contract.ConditionsField); ok {
		paths = conditions.Paths()
	}
	for _, path := range paths {
		at := path.Segments()
		found, nullIsAbsent := leafMalformations(t, c, name, l, at)
		for _, m := range found {
			if m.value == nil && m.path == path.String() {
				if _, annotation := annotationKey(path); annotation && nullIsAbsent {
					continue // absent for the field, and a wrong type for those who read all annotations
				}
				m.fine = nullIsAbsent
			}
			all = append(all, m)
		}
		all = append(all, above(at)...)
	}
	return all
}

// leafMalformations are what can be wrong at the place of a leaf and below, and whether null is.
func leafMalformations(t *testing.T, c malformedCase, name string, l leaf, at []string) (found []malformation, nullIsAbsent bool) {
	t.Helper()
	_, annotation := annotationKey(contract.PathOf(l))
	switch l := l.(type) {
	case contract.Field[string]:
		return wrongTypes(at, "string", "string"), false
	case contract.Field[bool]:
		return scalar(at, "bool", "bool", annotation), false
	case contract.Field[int32]:
		if annotation {
			return scalar(at, "32-bit integer", "", annotation), false
		}
		return append(wrongTypes(at, "32-bit integer", "integer"), wide(at)), false
	case contract.Field[int64]:
		return scalar(at, "integer", "integer", annotation), false
	case contract.Field[time.Time]:
		return append(wrongTypes(at, "string", "string"), unreadable(at, "RFC 3339 time")...), true
	case contract.Field[time.Duration]:
		if contract.InSeconds(l) {
			return append(wrongTypes(at, "32-bit integer", "integer"), wide(at)), false
		}
		return append(wrongTypes(at, "string", "string"), unreadable(at, "duration such as 1m30s")...), false
	case contract.Field[json.RawMessage]:
		return wrongTypes(at, "object", "object"), true
	case contract.Field[map[string]string]:
		return append(wrongTypes(at, "object", "object"), inside(wrongTypes(append(at, "key"), "string", "string"))...), true
	case contract.Field[intstr.IntOrString]:
		w := wide(at)
		w.want = "32-bit integer or string"
		return append(wrongTypes(at, w.want, "string", "integer"), w), false
	case contract.Field[*metav1.LabelSelector]:
		return selectorMalformations(at), true
	default:
		return listMalformations(t, c, name, l, list{at: at, entries: "object"})
	}
}

func listMalformations(t *testing.T, c malformedCase, name string, l leaf, in list) (found []malformation, nullIsAbsent bool) {
	t.Helper()
	switch l := l.(type) {
	case contract.Anywhere:
		return nil, true // anything: an adapter does not read it
	case contract.Field[[]string]:
		if contract.AreVersions(l) {
			in.valid, in.members = map[string]any{"version": "v1.36.3"}, map[string]string{"version": "string"}
			return in.malformations(), false
		}
		in.valid, in.entries = "x", "string"
		return in.malformations(), false
	case contract.Field[[]contract.Address]:
		in.valid, in.members = map[string]any{"type": "Hostname", "address": "h"}, map[string]string{"type": "string", "address": "string"}
		return in.malformations(), false
	case contract.Field[[]contract.Taint]:
		in.valid = map[string]any{"key": "k", "effect": "NoSchedule"}
		in.members = map[string]string{"key": "string", "value": "string", "effect": "string", "propagation": "string"}
		return in.malformations(), false
	case contract.Field[[]contract.ReadinessGate]:
		in.valid, in.members = map[string]any{"conditionType": "C"}, map[string]string{"conditionType": "string", "polarity": "string"}
		return in.malformations(), false
	case contract.Field[[]contract.NodeRef]:
		in.valid, in.members = map[string]any{"name": "n"}, map[string]string{"name": "string", "uid": "string"}
		return in.malformations(), false
	case contract.Field[[]contract.HealthRule]:
		in.valid = map[string]any{"type": "Ready", "status": "False", "timeout": "5m"}
		in.members = map[string]string{"type": "string", "status": "string", "timeout": "string"}
		if contract.RulesInSeconds(l) {
			in.valid = map[string]any{"type": "Ready", "status": "False", "timeoutSeconds": int64(300)}
			in.members = map[string]string{"type": "string", "status": "string", "timeoutSeconds": "32-bit integer"}
		}
		return in.malformations(), false
	case contract.ConditionsField:
		in.valid = map[string]any{"type": mirroredType(c), "status": "True"}
		in.members = map[string]string{"status": "string", "reason": "string", "message": "string", "observedGeneration": "integer"}
		all := in.malformations()
		if slices.Contains(c.spared, name) { // only one condition is looked at: entries of other types may be anything
			all = slices.DeleteFunc(all, func(m malformation) bool { return m.entry() })
		}
		return all, true
	default:
		require.Failf(t, "unknown field", "%s: the test does not know what can be wrong with a %T", name, l)
		return nil, false
	}
}

// selectorMalformations are what can be wrong with a label selector; null is as good as none.
func selectorMalformations(at []string) []malformation {
	labels, expressions := append(slices.Clip(at), "matchLabels"), append(slices.Clip(at), "matchExpressions")
	entry := map[string]any{"key": "k", "operator": "In", "values": []any{"v"}}
	wrong := wrongTypes(at, "object", "object")
	wrong = append(wrong, wrongTypes(labels, "object", "object", "null")...)
	wrong = append(wrong, inside(wrongTypes(append(labels, "key"), "string", "string"))...)
	members := map[string]string{"key": "string", "operator": "string", "values": "list"}
	return append(wrong, list{at: expressions, valid: entry, entries: "object", members: members}.malformations()...)
}

// mirroredType is the type of the condition that is read of a provider object or a Cluster.
func mirroredType(c malformedCase) string {
	switch c.layout.(type) {
	case *contract.ControlPlaneLayout:
		return contract.ConditionAvailable
	case *contract.ClusterLayout:
		return contract.ConditionControlPlaneInitialized
	default:
		return contract.ConditionReady
	}
}

// scalar knows that annotations hold text, which may not be readable as what is wanted.
func scalar(at []string, want, accepted string, annotation bool) []malformation {
	if !annotation {
		return wrongTypes(at, want, accepted)
	}
	wrong := wrongTypes(at, "", "string") // the field wants its type there, and who reads all annotations wants text
	return append(wrong, unreadable(at, want)[0])
}

func unreadable(at []string, want string) []malformation {
	m := malformation{at: at, path: strings.Join(at, "."), want: want, found: "unreadable text"}
	short, long := m, m
	short.what, short.value = "unreadable text", "?"
	long.what, long.value, long.large = "10 MB of unreadable text", hugeText, true
	return []malformation{short, long}
}

func wide(at []string) malformation {
	return malformation{what: "an integer of 33 bits", at: at, value: int64(1) << 32, path: strings.Join(at, "."),
		want: "32-bit integer", found: "integer 4294967296"}
}

// inside plants what is wrong with an entry into the map around it.
func inside(entries []malformation) []malformation {
	for i, m := range entries {
		last := len(m.at) - 1
		entries[i].at, entries[i].value = m.at[:last:last], map[string]any{m.at[last]: m.value}
		entries[i].what += " as an entry"
	}
	return entries
}

// list is the place of a list, and what its entries are.
type list struct {
	at      []string
	valid   any
	entries string
	members map[string]string
}

func (l list) entry(i int) string { return fmt.Sprintf("%s.%d", strings.Join(l.at, "."), i) }

// malformations are wrong lists: of another type, with a wrong entry after a right one, and with wrong members.
func (l list) malformations() []malformation {
	wrong := wrongTypes(l.at, "list", "list")
	for _, m := range wrongTypes(l.at, l.entries, l.entries) {
		m.what, m.path, m.value = m.what+" as an entry", l.entry(1), []any{l.valid, m.value}
		wrong = append(wrong, m)
	}
	for member, want := range l.members {
		for _, m := range wrongTypes(l.at, want, strings.TrimPrefix(want, "32-bit ")) {
			broken := maps.Clone(l.valid.(map[string]any))
			broken[member] = m.value
			m.what, m.path, m.value = m.what+" as a member", l.entry(0)+"."+member, []any{broken}
			wrong = append(wrong, m)
		}
	}
	return wrong
}

// entry reports whether the value is a list with an entry of another type.
func (m malformation) entry() bool { return strings.HasSuffix(m.what, "as an entry") }
