package contract_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// getCase is one read of spec.a.b.
type getCase[T scalarValue] struct {
	object string
	want   T
	found  bool
	err    string
}

func testGet[T scalarValue](t *testing.T, f contract.Field[T], cases map[string]getCase[T]) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj, before := parseJSON(t, c.object), parseJSON(t, c.object)
			got, found, err := f.Get(obj)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.err)
				require.ErrorIs(t, err, contract.ErrWrongType)
				var wrong *contract.FieldError
				require.ErrorAs(t, err, &wrong)
			}
			if got != c.want || found != c.found {
				t.Errorf("want %v found=%v, got %v found=%v", c.want, c.found, got, found)
			}
			if diff := cmp.Diff(before, obj); diff != "" {
				t.Errorf("Get changed the object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestField_Get(t *testing.T) {
	testGet(t, contract.At[string]("spec", "a", "b"), map[string]getCase[string]{
		"a value is found":                            {object: `{"spec":{"a":{"b":"x"}}}`, want: "x", found: true},
		"the empty text is found":                     {object: `{"spec":{"a":{"b":""}}}`, found: true},
		"an empty object has no value":                {object: `{}`},
		"an absent parent is absent":                  {object: `{"spec":{}}`},
		"an absent leaf is absent":                    {object: `{"spec":{"a":{"c":"x"}}}`},
		"a null at the root of the path is absent":    {object: `{"spec":null}`},
		"a null on the way is absent":                 {object: `{"spec":{"a":null}}`},
		"a null at the place itself is an error":      {object: `{"spec":{"a":{"b":null}}}`, err: "spec.a.b: want string, found null"},
		"text instead of the first object":            {object: `{"spec":"x"}`, err: "spec: want object, found string"},
		"a list instead of an object on the way":      {object: `{"spec":{"a":[]}}`, err: "spec.a: want object, found list"},
		"an integer instead of an object on the way":  {object: `{"spec":{"a":3}}`, err: "spec.a: want object, found integer"},
		"the same keys elsewhere are not looked into": {object: `{"a":{"b":"x"},"status":{"a":{"b":"x"}}}`},
	})
	testGet(t, contract.At[bool]("spec", "a", "b"), map[string]getCase[bool]{
		"true is found":  {object: `{"spec":{"a":{"b":true}}}`, want: true, found: true},
		"false is found": {object: `{"spec":{"a":{"b":false}}}`, found: true},
	})
}

func TestField_GetChecksTheRangeOfIntegers(t *testing.T) {
	testGet(t, contract.At[int32]("spec", "n"), map[string]getCase[int32]{
		"zero is found":             {object: `{"spec":{"n":0}}`, found: true},
		"the largest int32":         {object: `{"spec":{"n":2147483647}}`, want: math.MaxInt32, found: true},
		"the smallest int32":        {object: `{"spec":{"n":-2147483648}}`, want: math.MinInt32, found: true},
		"one more is not cut off":   {object: `{"spec":{"n":2147483648}}`, err: "spec.n: want 32-bit integer, found integer 2147483648"},
		"one less is not cut off":   {object: `{"spec":{"n":-2147483649}}`, err: "spec.n: want 32-bit integer, found integer -2147483649"},
		"2^32 does not become zero": {object: `{"spec":{"n":4294967296}}`, err: "spec.n: want 32-bit integer, found integer 4294967296"},
	})
	testGet(t, contract.At[int64]("spec", "n"), map[string]getCase[int64]{
		"the largest int64": {object: `{"spec":{"n":9223372036854775807}}`, want: math.MaxInt64, found: true},
	})
}

func TestField_GetNamesGoTypesThatJSONCannotHold(t *testing.T) {
	_, _, err := contract.At[int64]("n").Get(map[string]any{"n": 1})
	require.EqualError(t, err, "n: want integer, found int", "int is not a type of unstructured content")
}

func TestField_AnnotationsHoldValuesAsText(t *testing.T) {
	object := func(text string) string { return `{"metadata":{"annotations":{"machinist.dev/x":` + text + `}}}` }
	const at = "metadata.annotations.machinist.dev/x"
	testGet(t, contract.AtAnnotation[string]("machinist.dev/x"), map[string]getCase[string]{
		"text is taken as it is": {object: object(`" a "`), want: " a ", found: true},
		"no annotations at all":  {object: `{"metadata":{}}`},
		"another annotation":     {object: `{"metadata":{"annotations":{"machinist.dev/y":"a"}}}`},
	})
	testGet(t, contract.AtAnnotation[bool]("machinist.dev/x"), map[string]getCase[bool]{
		"true": {object: object(`"true"`), want: true, found: true},
	})
	testGet(t, contract.AtAnnotation[int32]("machinist.dev/x"), map[string]getCase[int32]{
		"a negative number": {object: object(`"-7"`), want: -7, found: true},
		"out of range":      {object: object(`"2147483648"`), err: at + ": want 32-bit integer, found unreadable text"},
	})
	testGet(t, contract.AtAnnotation[int64]("machinist.dev/x"), map[string]getCase[int64]{
		"a large number": {object: object(`"2147483648"`), want: 2147483648, found: true},
		"empty text":     {object: object(`""`), err: at + ": want integer, found unreadable text"},
	})
}

func TestField_TheZeroFieldIsNoSuchPlace(t *testing.T) {
	var f contract.Field[string]
	obj := map[string]any{"": "x"}
	_, found, err := f.Get(obj)
	require.NoError(t, err)
	require.False(t, found)
	require.True(t, f.Path().IsZero())
	require.ErrorIs(t, contract.Set(f, obj, "y"), contract.ErrNoPlace)
	require.NoError(t, contract.Clear(f, obj))
	require.Equal(t, map[string]any{"": "x"}, obj)
}

func TestField_NilObjectsAreEmptyToReadAndNoPlaceToWrite(t *testing.T) {
	f := contract.At[bool]("status", "ready")
	_, found, err := f.Get(nil)
	require.NoError(t, err)
	require.False(t, found)
	require.ErrorIs(t, contract.Set(f, nil, true), contract.ErrNoPlace)
	require.NoError(t, contract.Clear(f, nil))
}

func TestField_SetMakesTheObjectsOnTheWayAndReadsBackEqual(t *testing.T) {
	testSet(t, contract.At[string]("spec", "a", "b"), "", `{}`, `{"spec":{"a":{"b":""}}}`)
	testSet(t, contract.At[string]("spec", "a", "b"), "x", `{"spec":null}`, `{"spec":{"a":{"b":"x"}}}`)
	testSet(t, contract.At[bool]("spec", "a", "b"), true, `{"spec":{"a":{"c":1}},"z":[]}`, `{"spec":{"a":{"b":true,"c":1}},"z":[]}`)
	testSet(t, contract.At[int32]("n"), math.MinInt32, `{"n":"text"}`, `{"n":-2147483648}`)
	testSet(t, contract.At[int64]("n"), math.MaxInt64, `{"n":null}`, `{"n":9223372036854775807}`)
	testSet(t, contract.AtAnnotation[string]("k/x"), "v", `{"metadata":{"name":"m"}}`,
		`{"metadata":{"name":"m","annotations":{"k/x":"v"}}}`)
	testSet(t, contract.AtAnnotation[bool]("k"), true, `{}`, `{"metadata":{"annotations":{"k":"true"}}}`)
	testSet(t, contract.AtAnnotation[int32]("k"), -7, `{}`, `{"metadata":{"annotations":{"k":"-7"}}}`)
	testSet(t, contract.AtAnnotation[int64]("k"), 1<<40, `{}`, `{"metadata":{"annotations":{"k":"1099511627776"}}}`)
}

func testSet[T scalarValue](t *testing.T, f contract.Field[T], value T, before, after string) {
	t.Helper()
	obj := parseJSON(t, before)
	require.NoError(t, contract.Set(f, obj, value))
	if diff := cmp.Diff(parseJSON(t, after), obj); diff != "" {
		t.Errorf("Set(%s, %v) (-want +got):\n%s", f.Path(), value, diff)
	}
	got, found, err := f.Get(obj)
	require.NoError(t, err)
	if !found || got != value {
		t.Errorf("%s: wrote %v, read back %v found=%v", f.Path(), value, got, found)
	}
}

func TestField_ObjectsInTheWay(t *testing.T) {
	for name, text := range map[string]string{
		"text at the root": `{"status":"x","spec":{}}`,
		"a list below":     `{"status":{"a":["b"]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			obj := parseJSON(t, text)
			f := contract.At[string]("status", "a", "b", "c")
			require.ErrorIs(t, contract.Set(f, obj, "v"), contract.ErrWrongType)
			require.ErrorIs(t, contract.Clear(f, obj), contract.ErrWrongType)
			require.Equal(t, parseJSON(t, text), obj)
		})
	}
}

func TestField_ClearRemovesTheParentsThatItEmptied(t *testing.T) {
	f := contract.At[string]("status", "a", "b", "c")
	for name, c := range map[string]struct{ before, after string }{
		"the root of the path stays":                 {`{"status":{"a":{"b":{"c":"x"}}}}`, `{"status":{}}`},
		"a parent with another key stays":            {`{"status":{"a":{"b":{"c":"x"},"d":1}}}`, `{"status":{"a":{"d":1}}}`},
		"a leaf of another type goes too":            {`{"status":{"a":{"b":{"c":[1],"d":1}}}}`, `{"status":{"a":{"b":{"d":1}}}}`},
		"a null leaf goes too":                       {`{"status":{"a":{"b":{"c":null}},"x":1}}`, `{"status":{"x":1}}`},
		"an absent value changes nothing":            {`{"status":{"a":{"b":{"d":1}}}}`, `{"status":{"a":{"b":{"d":1}}}}`},
		"a parent that was empty before is not ours": {`{"status":{"a":{"b":{}}}}`, `{"status":{"a":{"b":{}}}}`},
		"a null on the way is left":                  {`{"status":{"a":null}}`, `{"status":{"a":null}}`},
		"nothing at all":                             {`{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parseJSON(t, c.before)
			require.NoError(t, contract.Clear(f, obj))
			if diff := cmp.Diff(parseJSON(t, c.after), obj); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPath_IsImmutable(t *testing.T) {
	segments := []string{"status", "ready"}
	path := contract.NewPath(segments...)
	segments[0] = "spec"
	path.Segments()[1] = "changed"
	require.Equal(t, "status.ready", path.String())
	require.Equal(t, []string{"status", "ready"}, path.Segments())
}

func TestFieldError_MatchesOnlyErrWrongType(t *testing.T) {
	err := error(&contract.FieldError{Path: contract.NewPath("a"), Want: "bool", Got: "null"})
	require.ErrorIs(t, err, contract.ErrWrongType)
	require.NotErrorIs(t, err, contract.ErrNoPlace)
}

func TestATimeIsAheadWhenClocksDoNotDifferByThatMuch(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.False(t, contract.IsAhead(time.Time{}, now))
	require.False(t, contract.IsAhead(now.Add(contract.ClockTolerance), now))
	require.True(t, contract.IsAhead(now.Add(contract.ClockTolerance+time.Nanosecond), now))
}

// scalarValue is what a Field holds that == compares.
type scalarValue interface {
	string | bool | int32 | int64
}
