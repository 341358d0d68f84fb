package contract

import "time"

// TimeField is the place of a point in time, written as RFC 3339 text with seconds. The zero TimeField is "no such place":
// it reads as absent. Safe for concurrent use as long as the object is not written.
type TimeField struct{ path Path }

// TimeAt returns the TimeField at the given keys.
func TimeAt(segments ...string) TimeField { return TimeField{path: NewPath(segments...)} }

// TimeAtAnnotation returns the TimeField that lives in the annotation with this key.
func TimeAtAnnotation(key string) TimeField { return TimeAt("metadata", "annotations", key) }

// Path returns the place; it is the zero Path when the layout has none.
func (f TimeField) Path() Path { return f.path }

// Get reads the time, in UTC. Absent, null and the empty text, as the zero time is written by some encoders, are
// found=false. Another type, or text that is no RFC 3339 time, is an error that matches ErrWrongType. It allocates nothing
// unless it fails.
func (f TimeField) Get(obj map[string]any) (at time.Time, found bool, err error) {
	raw, found, err := lookup(f.path.segments, obj)
	if err != nil || !found || raw == nil {
		return time.Time{}, false, err
	}
	text, ok := raw.(string)
	if !ok {
		return time.Time{}, false, &FieldError{Path: f.path, Want: "string", Got: TypeName(raw)}
	}
	if text == "" {
		return time.Time{}, false, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, false, unreadableTime(f.path)
	}
	return at.UTC(), true, nil
}

// set writes the time in UTC, cut to the second. It fails like Field.Set.
func (f TimeField) set(obj map[string]any, at time.Time) error { return f.path.set(obj, rfc3339(at)) }

func unreadableTime(at Path) error {
	return &FieldError{Path: at, Want: "RFC 3339 time", Got: "unreadable text"}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ClockTolerance is how far the clocks of two processes may differ without a correction.
const ClockTolerance = 5 * time.Minute

// IsAhead reports whether a time that an object records is later than now by more than ClockTolerance. Where such a time was past when it
// was recorded, one of the two clocks is wrong, and a limit that counts from it would end as much later.
func IsAhead(recorded, now time.Time) bool { return recorded.After(now.Add(ClockTolerance)) }

// DurationField is the place of a duration: whole seconds as a 32-bit integer, as Cluster API writes it since v1beta2, or
// text such as "1m30s" before. The zero DurationField is "no such place": it reads as absent. Safe for concurrent use as
// long as no goroutine writes the object.
type DurationField struct {
	path Path
	text bool
}

// SecondsAt returns the DurationField of a number of seconds at the given keys.
func SecondsAt(segments ...string) DurationField { return DurationField{path: NewPath(segments...)} }

// DurationAt returns the DurationField of a duration text, in the shape of metav1.Duration, at the given keys.
func DurationAt(segments ...string) DurationField {
	return DurationField{path: NewPath(segments...), text: true}
}

// Get reads the duration. Zero is found. Another type is an error that matches ErrWrongType, and so are text that is no
// duration and an explicit null. It allocates nothing unless it fails.
func (f DurationField) Get(obj map[string]any) (d time.Duration, found bool, err error) {
	raw, found, err := lookup(f.path.segments, obj)
	if err != nil || !found {
		return 0, false, err
	}
	if !f.text {
		seconds, ok := convert[int32](raw)
		if !ok {
			return 0, false, Field[int32]{path: f.path}.wrong(raw)
		}
		return time.Duration(seconds) * time.Second, true, nil
	}
	text, ok := raw.(string)
	if !ok {
		return 0, false, &FieldError{Path: f.path, Want: "string", Got: TypeName(raw)}
	}
	d, err = time.ParseDuration(text)
	if err != nil {
		return 0, false, &FieldError{Path: f.path, Want: "duration such as 1m30s", Got: "unreadable text"}
	}
	return d, true, nil
}

// set writes the duration. Where the place holds seconds, a part of a second counts as a whole one, so that no limit
// becomes shorter than was asked for, and a duration that 32 bits cannot hold is an error. It fails like Field.Set.
func (f DurationField) set(obj map[string]any, d time.Duration) error {
	if f.text {
		return f.path.set(obj, d.String())
	}
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	if !fitsInt32(seconds) {
		return &FieldError{Path: f.path, Want: "32-bit integer of seconds", Got: d.String()}
	}
	return f.path.set(obj, seconds)
}
