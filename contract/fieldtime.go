package contract

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// SecondsAt returns the Field of a duration in whole seconds, a 32-bit integer, at the given keys. Cluster API writes durations so since
// v1beta2.
func SecondsAt(segments ...string) Field[time.Duration] {
	return Field[time.Duration]{path: NewPath(segments...), form: formSeconds}
}

// timeOf reads a time, in UTC. Null and the empty text, as the zero time is written by some encoders, are none.
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
		return time.Time{}, false, unreadableTime(path)
	}
	return at.UTC(), true, nil
}

func unreadableTime(at Path) error {
	return &FieldError{Path: at, Want: "RFC 3339 time", Got: "unreadable text"}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ClockTolerance is how far the clocks of two processes may differ without a correction.
const ClockTolerance = 5 * time.Minute

// IsAhead reports whether a time that an object records is later than now by more than ClockTolerance. Where such a time was past when it
// was recorded, one of the two clocks is wrong, and a limit that counts from it would end as much later.
func IsAhead(recorded, now time.Time) bool { return recorded.After(now.Add(ClockTolerance)) }

// durationOf reads a duration: text, or a number of seconds.
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

// durationContent returns what is written for a duration.
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

// intOrStringOf reads a number or a text, which is returned as it stands: whether it is a percentage matters to those who scale with it
// (intstr.GetScaledValueFromIntOrPercent).
func intOrStringOf(path Path, raw any) (intstr.IntOrString, error) {
	if text, ok := raw.(string); ok {
		return intstr.FromString(text), boundText(path.segments, text)
	}
	if number, ok := convert[int32](raw); ok {
		return intstr.FromInt32(number), nil
	}
	got := typeName(raw)
	if _, ok := raw.(int64); ok {
		got = gotNumber(raw)
	}
	return intstr.IntOrString{}, &FieldError{Path: path, Want: "32-bit integer or string", Got: got}
}
