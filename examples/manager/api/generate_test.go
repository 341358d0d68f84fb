package api_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// dice make Machines and updates. Few values are used, so that updates often meet what is there.
type dice struct{ *rand.Rand }

func (d dice) once(in int) bool { return d.IntN(in) == 0 }

func (d dice) text() string { return string(rune('a' + d.IntN(3))) }

func (d dice) at() time.Time { return noon.Add(time.Duration(d.IntN(3)) * time.Minute) }

func (d dice) conditionType() string {
	all := []string{"Ready", "Available", "Deleting", "NodeReady", "Another", "Paused"}
	return all[d.IntN(len(all))]
}

// machine returns the content of a Machine that an API server with this schema could serve: any of the fields of the schema, whether
// the type knows them or not, and any state in annotations.
func (d dice) machine(s *schema) map[string]any {
	content := map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": d.metadata()}
	for _, name := range []string{"spec", "status"} {
		if !d.once(8) {
			content[name] = d.value(s.Properties[name], name)
		}
	}
	return content
}

// value returns something of a schema.
func (d dice) value(s *schema, name string) any {
	switch s.Type {
	case "object":
		return d.object(s)
	case "array":
		return d.list(s)
	case "boolean":
		return d.once(2)
	case "integer":
		if name == "observedGeneration" {
			return int64(1 + d.IntN(3)) // 0 is never written
		}
		return int64(d.IntN(3))
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[d.IntN(len(s.Enum))]
	case s.Format == "date-time":
		return d.at().Format(time.RFC3339)
	case name == "type":
		return d.conditionType()
	case s.MinLength == 0 && d.once(3):
		return ""
	}
	return d.text()
}

func (d dice) object(s *schema) map[string]any {
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		if slices.Contains(s.Required, name) || d.once(2) {
			content[name] = d.value(property, name)
		}
	}
	return content
}

// list returns entries that differ in the keys of the list.
func (d dice) list(s *schema) []any {
	list := []any{}
	seen := map[string]bool{}
	for range s.MinItems + d.IntN(4) {
		entry := d.value(s.Items, "")
		key := ""
		for _, name := range s.MapKeys {
			if member, ok := entry.(map[string]any); ok {
				key += fmt.Sprint(member[name], "/")
			}
		}
		if len(s.MapKeys) == 0 || !seen[key] {
			list = append(list, entry)
		}
		seen[key] = true
	}
	return list
}

func (d dice) metadata() map[string]any {
	metadata := map[string]any{"name": "m", "namespace": "ns", "uid": d.text(), "resourceVersion": "7"}
	annotations := map[string]any{}
	for _, key := range []string{contract.NodeUIDAnnotation, contract.DeletionAnnotation, "other"} {
		if d.once(2) {
			annotations[key] = d.text()
		}
	}
	owner := map[string]any{"apiVersion": "v1", "kind": "K", "name": d.text(), "uid": "u"}
	if d.once(2) {
		owner["controller"], owner["blockOwnerDeletion"] = true, d.once(2)
	}
	all := map[string]any{
		"generation": int64(3), "creationTimestamp": noon.Format(time.RFC3339), "deletionTimestamp": d.at().Format(time.RFC3339),
		"annotations": annotations, "labels": map[string]any{d.text(): d.text()}, "finalizers": []any{d.text(), "other"},
		"ownerReferences": []any{owner}, "managedFields": []any{map[string]any{"manager": "x", "operation": "Update"}},
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		if m, isMap := value.(map[string]any); d.once(3) || isMap && len(m) == 0 {
			continue // an API server leaves empty ones out
		}
		metadata[name] = value
	}
	return metadata
}

// update returns any update.
func (d dice) update() contract.MachineUpdate {
	var u contract.MachineUpdate
	for _, field := range reflect.ValueOf(&u).Elem().Fields() {
		d.change(field.Addr().Interface())
	}
	return u
}

// change fills one field of an update. One of a type that it does not know stays zero, which another test finds.
func (d dice) change(into any) {
	switch into := into.(type) {
	case *contract.MetadataUpdate:
		*into = contract.MetadataUpdate{
			Finalizers:      change(d, slices.Repeat([]string{d.text()}, d.IntN(2))),
			OwnerReferences: change(d, slices.Repeat([]metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: d.text(), UID: "u"}}, d.IntN(2))),
			Labels:          map[string]contract.Change[string]{d.text(): change(d, d.text()), d.text(): change(d, "")},
			Annotations:     map[string]contract.Change[string]{"other": change(d, d.text()), contract.DrainedAnnotation: change(d, d.text())},
		}
	case *contract.Change[string]:
		*into = change(d, strings.Repeat(d.text(), d.IntN(2)))
	case *contract.Change[bool]:
		*into = change(d, d.once(2))
	case *contract.Change[int64]:
		*into = change(d, int64(d.IntN(3)))
	case *contract.Change[time.Time]:
		*into = change(d, []time.Time{d.at(), d.at().Add(time.Millisecond).In(time.FixedZone("x", 3600)), {}}[d.IntN(3)])
	case *contract.Change[types.UID]:
		*into = change(d, types.UID(strings.Repeat(d.text(), d.IntN(2))))
	case *contract.Change[contract.NodeRef]:
		*into = change(d, contract.NodeRef{Name: strings.Repeat(d.text(), d.IntN(2)), UID: types.UID(strings.Repeat(d.text(), d.IntN(2)))})
	case *contract.Change[[]contract.Address]:
		*into = change(d, slices.Repeat([]contract.Address{{Type: "Hostname", Address: d.text()}}, d.IntN(3)))
	case *[]metav1.Condition:
		for range d.IntN(4) {
			*into = append(*into, metav1.Condition{
				Type: d.conditionType(), Status: metav1.ConditionTrue, Reason: strings.Repeat("R", d.IntN(2)), Message: d.text(),
				ObservedGeneration: int64(d.IntN(3)), LastTransitionTime: metav1.NewTime(d.at()),
			})
		}
	case *[]string:
		for range d.IntN(3) {
			*into = append(*into, d.conditionType())
		}
	}
}

func change[T any](d dice, to T) contract.Change[T] {
	switch d.IntN(4) {
	case 0:
		return contract.SetTo(to)
	case 1:
		return contract.Cleared[T]()
	default:
		return contract.Change[T]{}
	}
}
