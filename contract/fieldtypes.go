package contract

import (
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
)

// textsOf returns before while the content is equal.
func textsOf(path Path, raw any, before []string) ([]string, error) {
	items, err := itemsOf(path, raw)
	if err != nil {
		return nil, err
	}
	switch {
	case len(items) == 0:
		return nil, nil
	case sameList(before, items):
		return slices.Clip(before), nil
	}
	texts := make([]string, len(items))
	for i, item := range items {
		var ok bool
		if texts[i], ok = item.(string); !ok {
			return nil, &FieldError{Path: entryPath(path, i), Want: "string", Got: typeName(item)}
		}
	}
	return texts, nil
}

func sameList(have []string, items []any) bool {
	if len(have) != len(items) {
		return false
	}
	for i, item := range items {
		if !isText(item, have[i]) {
			return false
		}
	}
	return true
}

// itemsOf returns a list. Null is a wrong type, as for scalars.
func itemsOf(path Path, raw any) ([]any, error) {
	items, ok := raw.([]any)
	if !ok {
		return nil, &FieldError{Path: path, Want: "list", Got: typeName(raw)}
	}
	return items, nil
}

func entriesAt[T comparable](path Path, raw any, before []T, read func(entry) (T, error)) ([]T, error) {
	items, err := itemsOf(path, raw)
	if err != nil {
		return nil, err
	}
	return entriesOf(path, items, before, read)
}

// entry reads the members of one object of a list and stores the first error, so that readers need no error checks. It is passed by value,
// so that it stays on the stack.
type entry struct {
	list   Path
	index  int
	values map[string]any
	err    error
}

// entriesOf reads the objects of a list. While they equal the entries of before, it returns before and allocates nothing. It never changes
// before, which callers may still use.
func entriesOf[T comparable](at Path, items []any, before []T, read func(entry) (T, error)) ([]T, error) {
	if len(items) == 0 {
		return nil, nil
	}
	kept := before[:0:min(len(before), len(items))]
	fresh := false
	for i, item := range items {
		values, ok := item.(map[string]any)
		if !ok {
			return nil, &FieldError{Path: entryPath(at, i), Want: "object", Got: typeName(item)}
		}
		value, err := read(entry{list: at, index: i, values: values})
		if err != nil {
			return nil, err
		}
		if !fresh && i < len(before) && before[i] == value {
			kept = kept[:i+1]
			continue
		}
		if !fresh {
			fresh, kept = true, append(make([]T, 0, len(items)), before[:i]...)
		}
		kept = append(kept, value)
	}
	return slices.Clip(kept), nil
}

func (e *entry) fail(key, want, got string) {
	if e.err == nil {
		e.err = &FieldError{Path: entryPath(e.list, e.index, key), Want: want, Got: got}
	}
}

// text returns a text member, empty when it is missing; another type is an error.
func (e *entry) text(key string) string {
	raw, found := e.values[key]
	text, ok := raw.(string)
	if found && !ok {
		e.fail(key, "string", typeName(raw))
	}
	return text
}

// needed returns a required member, which must be non-empty text.
func (e *entry) needed(key string) string {
	text := e.text(key)
	if text == "" {
		e.fail(key, "string", "nothing")
	}
	return text
}

// memberAt reads a field of the entry.
func memberAt[T fieldValue](e *entry, f Field[T]) Opt[T] {
	value, found, err := f.Get(e.values)
	if wrong, ok := errors.AsType[*FieldError](err); ok && e.err == nil {
		e.err = &FieldError{Path: entryPath(e.list, e.index, wrong.Path.segments...), Want: wrong.Want, Got: wrong.Got}
	}
	return Opt[T]{value: value, found: found}
}

// versionsAt returns the Field of a list of Kubernetes versions, whose entries have a version and a number of replicas.
func versionsAt(segments ...string) Field[[]string] {
	return Field[[]string]{path: NewPath(segments...), form: formVersions}
}

// lowestVersion returns the lowest version of a list, empty for an empty list. If some are not semantic versions, it returns the
// alphabetically first of them, so that the reader reports it.
func lowestVersion(versions []string) string {
	lowest := ""
	for _, text := range versions {
		if text != "" && (lowest == "" || isLower(text, lowest)) {
			lowest = text
		}
	}
	return lowest
}

func readVersion(e entry) (string, error) {
	version := e.text("version")
	return version, e.err
}

func isLower(a, b string) bool {
	x, errX := version.Parse(a)
	y, errY := version.Parse(b)
	if errX != nil || errY != nil {
		return errX != nil && (errY == nil || a < b) // an unreadable version is not hidden by a readable one
	}
	return x.LessThan(y)
}

// SecondsAt returns the Field of a duration in whole seconds, a 32-bit integer, at the given keys. Cluster API has used this encoding since
// v1beta2.
func SecondsAt(segments ...string) Field[time.Duration] {
	return Field[time.Duration]{path: NewPath(segments...), form: formSeconds}
}

// timeOf reads a time in UTC. Null and the empty text, which some encoders write for the zero time, are absent.
func timeOf(path Path, raw any) (at time.Time, found bool, err error) {
	if raw == nil {
		return time.Time{}, false, nil
	}
	text, ok := raw.(string)
	if !ok {
		return time.Time{}, false, &FieldError{Path: path, Want: "string", Got: typeName(raw)}
	}
	if text == "" {
		return time.Time{}, false, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, false, &FieldError{Path: path, Want: "RFC 3339 time", Got: "unreadable text"}
	}
	return at.UTC(), true, nil
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ClockTolerance is the tolerated difference between the clocks of two processes.
const ClockTolerance = 5 * time.Minute

// IsAhead reports whether a recorded time is later than now by more than ClockTolerance. Then one of the two clocks is wrong, and a limit
// that counts from the recorded time would end too late.
func IsAhead(recorded, now time.Time) bool { return recorded.After(now.Add(ClockTolerance)) }

// durationOf reads a duration from text or from a number of seconds.
func durationOf(path Path, form form, raw any) (time.Duration, error) {
	if form == formSeconds {
		seconds, ok := convert[int32](raw)
		if !ok {
			return 0, &FieldError{Path: path, Want: "32-bit integer", Got: gotNumber(raw)}
		}
		return time.Duration(seconds) * time.Second, nil
	}
	text, ok := raw.(string)
	if !ok {
		return 0, &FieldError{Path: path, Want: "string", Got: typeName(raw)}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, &FieldError{Path: path, Want: "duration such as 1m30s", Got: "unreadable text"}
	}
	return d, nil
}

// durationContent returns the encoding of a duration.
func durationContent(path Path, form form, d time.Duration) (any, error) {
	if form != formSeconds {
		return d.String(), nil
	}
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	if !fitsInt32(seconds) {
		return nil, &FieldError{Path: path, Want: "32-bit integer of seconds", Got: d.String()}
	}
	return seconds, nil
}

// intOrStringOf reads a number or a text. The text is not validated; intstr.GetScaledValueFromIntOrPercent checks whether it is a
// percentage.
func intOrStringOf(path Path, raw any) (intstr.IntOrString, error) {
	if text, ok := raw.(string); ok {
		return intstr.FromString(text), nil
	}
	if number, ok := convert[int32](raw); ok {
		return intstr.FromInt32(number), nil
	}
	return intstr.IntOrString{}, &FieldError{Path: path, Want: "32-bit integer or string", Got: gotNumber(raw)}
}

// selectorOf reads matchLabels, and matchExpressions with key, operator and values; nil when the selector is absent or null. The empty
// selector is not nil: it selects everything, and nil selects nothing. Operators are not validated here; metav1.LabelSelectorAsSelector
// does that. While the content equals before, it returns before.
func selectorOf(path Path, raw any, before *metav1.LabelSelector) (*metav1.LabelSelector, error) {
	values, ok := raw.(map[string]any)
	switch {
	case raw == nil:
		return nil, nil //nolint:nilnil // null is absent
	case !ok:
		return nil, &FieldError{Path: path, Want: "object", Got: typeName(raw)}
	case before != nil && sameSelector(before, values):
		return before, nil
	}
	labels, err := textMapOf(path.below("matchLabels"), values["matchLabels"], nil)
	selector := &metav1.LabelSelector{MatchLabels: labels}
	if list, found := values["matchExpressions"]; found && err == nil {
		var expressions []*metav1.LabelSelectorRequirement
		expressions, err = entriesAt(path.below("matchExpressions"), list, nil, readExpression)
		for _, expression := range expressions {
			selector.MatchExpressions = append(selector.MatchExpressions, *expression)
		}
	}
	return selector, err
}

// readExpression returns a pointer, because entriesOf needs comparable entries and an expression is not comparable.
func readExpression(e entry) (*metav1.LabelSelectorRequirement, error) {
	expression := &metav1.LabelSelectorRequirement{
		Key: e.needed("key"), Operator: metav1.LabelSelectorOperator(e.needed("operator")), Values: memberAt(&e, expressionValues).Or(nil),
	}
	return expression, e.err
}

var expressionValues = At[[]string]("values")

// sameSelector reports whether a selector equals the encoded selector in values. Content of another type is never equal.
func sameSelector(have *metav1.LabelSelector, values map[string]any) bool {
	labels, ok := optional[map[string]any](values, "matchLabels")
	if !ok || !sameTexts(have.MatchLabels, labels) {
		return false
	}
	expressions, ok := optional[[]any](values, "matchExpressions")
	return ok && slices.EqualFunc(have.MatchExpressions, expressions, sameExpression)
}

func sameExpression(have metav1.LabelSelectorRequirement, item any) bool {
	values, ok := item.(map[string]any)
	if !ok || !isText(values["key"], have.Key) || !isText(values["operator"], string(have.Operator)) {
		return false
	}
	texts, ok := optional[[]any](values, "values")
	return ok && sameList(have.Values, texts)
}

// optional returns a member of the given type, its zero value when the member is absent; ok is false for another type and for null.
func optional[T any](values map[string]any, key string) (member T, ok bool) {
	raw, found := values[key]
	if !found {
		return member, true
	}
	member, ok = raw.(T)
	return member, ok
}

// rulesInSecondsAt returns the Field of rules with timeouts in timeoutSeconds. Rules of At have text timeouts in timeout.
func rulesInSecondsAt(segments ...string) Field[[]HealthRule] {
	return Field[[]HealthRule]{path: NewPath(segments...), form: formSeconds}
}

// ruleTimeouts are the fields of the timeout in a rule, by the form of the list.
var ruleTimeouts = [...]Field[time.Duration]{formPlain: At[time.Duration]("timeout"), formSeconds: SecondsAt("timeoutSeconds")}

// rulesOf requires all members of a rule: one without a timeout would apply at once.
func rulesOf(path Path, form form, raw any, before []HealthRule) ([]HealthRule, error) {
	at := ruleTimeouts[form]
	return entriesAt(path, raw, before, func(e entry) (HealthRule, error) {
		rule := HealthRule{Type: e.needed("type"), Status: metav1.ConditionStatus(e.needed("status"))}
		timeout := memberAt(&e, at)
		if rule.Timeout = timeout.Or(-1); rule.Timeout < 0 {
			got := "nothing"
			if timeout.found {
				got = rule.Timeout.String()
			}
			e.fail(at.path.text, at.typeName(), got)
		}
		return rule, e.err
	})
}

// versionedRefAt returns the RefField with apiVersion, kind and name at the given keys.
func versionedRefAt(segments ...string) RefField {
	member := memberOf(segments)
	return RefField{APIVersion: member("apiVersion"), Kind: member("kind"), Name: member("name")}
}

func versionIn(apiVersion string) string {
	_, version, found := strings.Cut(apiVersion, "/")
	if !found {
		return apiVersion
	}
	return version
}
