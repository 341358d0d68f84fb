package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// malformedCase is a layout whose every leaf is given every malformed value. A further layout needs a line in malformedCases.
type malformedCase struct {
	// layout is a pointer to a struct of fields.
	layout any
	// base is the object that values are planted into. What is due must be due in it.
	base string
	// bases replace base for leaves that are looked at only while others say nothing.
	bases map[string]string
	// read reads the object through the layout. What holds nothing up comes back apart.
	read func(obj *unstructured.Unstructured) (err, spared error)
	// spared are the leaves that hold nothing up.
	spared []string
	// writeOnly are leaves that follow from others and are never read.
	writeOnly []string
}

// metadataPlaces are what every adapter reads, whatever the layout says.
type metadataPlaces struct {
	Namespace, Name, UID, ResourceVersion contract.Field[string]
	Generation                            contract.Field[int64]
	Created, Deleting                     contract.Field[time.Time]
	Labels, Annotations                   contract.Field[map[string]string]
	Finalizers                            contract.Field[[]string]
}

// placesReader reads each place of a layout, for a layout without a reader of its own.
func placesReader(layout any) func(*unstructured.Unstructured) (error, error) {
	return func(obj *unstructured.Unstructured) (error, error) {
		var all []error
		for _, place := range contract.Places(layout) {
			_, errs := place.Read(obj.Object)
			all = append(all, errs...)
		}
		return errors.Join(all...), nil
	}
}

func malformedCases() map[string]malformedCase {
	cases := map[string]malformedCase{
		"metadata": {base: `{}`, read: machineCases()[1].malformed("").read,
			layout: &metadataPlaces{
				Namespace: contract.At[string]("metadata", "namespace"), Name: contract.At[string]("metadata", "name"),
				UID: contract.At[string]("metadata", "uid"), ResourceVersion: contract.At[string]("metadata", "resourceVersion"),
				Generation: contract.At[int64]("metadata", "generation"), Created: contract.At[time.Time]("metadata", "creationTimestamp"),
				Deleting: contract.At[time.Time]("metadata", "deletionTimestamp"), Finalizers: contract.At[[]string]("metadata", "finalizers"),
				Labels: contract.At[map[string]string]("metadata", "labels"), Annotations: contract.At[map[string]string]("metadata", "annotations"),
			}},
	}
	maps.Copy(cases, setMalformedCases())
	maps.Copy(cases, clusterMalformedCases())
	for _, v := range contractVersions() {
		for role, c := range providerCases(v) {
			c.base = `{"kind":"K","metadata":{"name":"n"},"status":{"ready":true,"initialized":true,
				"initialization":{"provisioned":true,"dataSecretCreated":true,"controlPlaneInitialized":true}}}`
			cases[role+" "+string(v)] = c
		}
	}
	return cases
}

func providerCases(v contract.Version) map[string]malformedCase {
	return map[string]malformedCase{
		"InfraMachine": {layout: contract.LayoutsOf(v).InfraMachine, spared: []string{"Conditions"},
			read: func(obj *unstructured.Unstructured) (error, error) {
				var s contract.InfraMachineState
				return contract.LayoutsOf(v).InfraMachine.Read(obj, &s), withCondition(s.Unreadable, s.Ready)
			}},
		"BootstrapConfig": {layout: contract.LayoutsOf(v).BootstrapConfig, spared: []string{"Conditions"},
			read: func(obj *unstructured.Unstructured) (error, error) {
				var s contract.BootstrapConfigState
				return contract.LayoutsOf(v).BootstrapConfig.Read(obj, &s), withCondition(s.Unreadable, s.Ready)
			}},
		"InfraMachinePool": {layout: contract.LayoutsOf(v).InfraMachinePool, spared: []string{"Conditions"},
			bases: map[string]string{"ProvisionedFallback": `{"kind":"K","metadata":{"name":"n"}}`},
			read: func(obj *unstructured.Unstructured) (error, error) {
				var s contract.InfraMachinePoolState
				return contract.LayoutsOf(v).InfraMachinePool.Read(obj, &s), withCondition(s.Unreadable, s.Ready)
			}},
		"Template": {layout: contract.LayoutsOf(v).Template, read: placesReader(contract.LayoutsOf(v).Template)},
		"ControlPlane": {layout: contract.LayoutsOf(v).ControlPlane,
			spared: []string{"DesiredVersion", "CurrentVersion", "CurrentVersions"},
			read: func(obj *unstructured.Unstructured) (error, error) {
				var s contract.ControlPlaneState
				return contract.LayoutsOf(v).ControlPlane.Read(obj, &s), s.Unreadable
			}},
	}
}

// leaf is a field of a layout.
type leaf = contract.Leaf

// leavesOf finds the fields of a layout by reflection, so that a new one cannot be forgotten.
func leavesOf(t *testing.T, prefix string, v reflect.Value) map[string]leaf {
	t.Helper()
	leaves := map[string]leaf{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		require.True(t, field.IsExported(), "%s.%s: the test does not see into %s", prefix, field.Name, v.Type())
		name := prefix + field.Name
		if l, ok := contract.LeafOf(v.Field(i)); ok && field.Type != reflect.TypeFor[contract.RefField]() {
			leaves[name] = l
			continue
		}
		if field.Type == reflect.TypeFor[contract.Version]() {
			continue
		}
		require.Equal(t, reflect.Struct, field.Type.Kind(), "%s: the test does not know fields of type %s", name, field.Type)
		inner := name + "."
		if field.Anonymous {
			inner = prefix
		}
		maps.Copy(leaves, leavesOf(t, inner, v.Field(i)))
	}
	return leaves
}

func TestMalformedObjects(t *testing.T) {
	for name, c := range malformedCases() {
		t.Run(name, func(t *testing.T) {
			leaves := leavesOf(t, "", reflect.ValueOf(c.layout).Elem())
			maps.DeleteFunc(leaves, func(_ string, l leaf) bool { return contract.PathOf(l).IsZero() })
			require.NotEmpty(t, leaves)
			for name, l := range leaves {
				for _, m := range malformations(t, c, name, l) {
					checkMalformed(t, c, name, l, m)
				}
			}
			for _, name := range slices.Concat(c.spared, c.writeOnly) {
				require.Contains(t, leaves, name, "an exception for nothing")
			}
		})
	}
}

func checkMalformed(t *testing.T, c malformedCase, name string, l leaf, m malformation) {
	t.Helper()
	base := c.base
	if other, found := c.bases[name]; found {
		base = other
	}
	obj := parseObject(t, base)
	obj.Object = planted(obj.Object, m.at, m.value)
	var before map[string]any
	if !m.large {
		before = runtime.DeepCopyJSON(obj.Object)
	}
	var o outcome
	o.err, o.spared = c.read(obj)
	o.known, o.own = leafError(l, obj.Object)
	if complaint := o.complaint(c, name, m); complaint != "" {
		t.Errorf("%s, %s at %s: %s; got %.400v, apart %.400v, of the field alone %.400v",
			name, m.what, strings.Join(m.at, "."), complaint, o.err, o.spared, o.own)
	}
	if !m.large && cmp.Diff(before, obj.Object) != "" {
		t.Errorf("%s, %s at %s: reading changed the object", name, m.what, strings.Join(m.at, "."))
	}
}

// outcome is what was said about a malformed object: by Read, apart from it, and by the field alone.
type outcome struct {
	err, spared, own error
	known            bool
}

// complaint is what is wrong with an outcome, nothing when it is as it must be.
func (o outcome) complaint(c malformedCase, name string, m malformation) string {
	if m.fine {
		if errors.Join(o.err, o.spared, o.own) != nil {
			return "want no error"
		}
		return ""
	}
	if o.known && !m.says(o.own) {
		return fmt.Sprintf("want the field to say %q", m.message())
	}
	if o.err != nil && (len(o.err.Error()) > 400 || !errors.Is(o.err, contract.ErrWrongType)) {
		return "errors are short and match ErrWrongType"
	}
	said := m.says(o.err)
	switch {
	case m.above: // others are read from there too, which decides whether it holds up
		said = m.says(errors.Join(o.err, o.spared))
	case slices.Contains(c.writeOnly, name):
		said = o.err == nil
	case slices.Contains(c.spared, name):
		said = o.err == nil && m.says(o.spared)
	}
	if !said {
		return fmt.Sprintf("want %q", m.message())
	}
	return ""
}

// planted returns the object with a value at a place.
func planted(obj map[string]any, at []string, value any) map[string]any {
	if obj == nil {
		obj = map[string]any{}
	}
	if len(at) == 1 {
		obj[at[0]] = value
		return obj
	}
	inner, _ := obj[at[0]].(map[string]any)
	obj[at[0]] = planted(inner, at[1:], value)
	return obj
}

// leafError is what the field itself says; not every field can be read alone.
func leafError(l leaf, obj map[string]any) (known bool, err error) {
	switch l := l.(type) {
	case contract.Field[string], contract.Field[bool], contract.Field[int32], contract.Field[int64], contract.Field[time.Time],
		contract.Field[time.Duration], contract.Field[json.RawMessage], contract.Field[map[string]string],
		contract.Field[intstr.IntOrString], contract.Field[*metav1.LabelSelector], contract.Field[[]contract.Address]:
		err = contract.Check(l, obj)
	case contract.ConditionsField:
		_, err = l.Get(obj, nil)
	default: // lists that tolerate null in an object and not alone, and those that are read by adapters only
		return false, nil
	}
	return true, err
}

// withCondition adds what a mirrored condition says about itself.
func withCondition(err error, c contract.Opt[conditionType]) error {
	if condition, found := c.Get(); found && condition.Reason == contract.ReasonInvalidCondition {
		return errors.Join(err, errors.New(condition.Message))
	}
	return err
}
