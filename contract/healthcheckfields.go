package contract

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// UnhealthyCondition is a rule of a health check: a Machine is unhealthy when the condition has had this status for longer
// than the timeout.
type UnhealthyCondition struct {
	Type, Status string
	Timeout      time.Duration
}

// UnhealthyConditionsField is the place of a list of conditions that make a Machine unhealthy: type, status and a timeout,
// which is another member and of another type in every version. The zero UnhealthyConditionsField is "no such place": it
// reads as absent.
type UnhealthyConditionsField struct {
	path    Path
	timeout DurationField
}

// UnhealthyConditionsAt returns the UnhealthyConditionsField at the given keys, whose entries have their timeout at a place
// inside the entry: SecondsAt("timeoutSeconds") or DurationAt("timeout").
func UnhealthyConditionsAt(timeout DurationField, segments ...string) UnhealthyConditionsField {
	return UnhealthyConditionsField{path: NewPath(segments...), timeout: timeout}
}

// Path returns the place; it is the zero Path when the layout has none.
func (f UnhealthyConditionsField) Path() Path { return f.path }

// Timeout returns the place of the timeout inside an entry.
func (f UnhealthyConditionsField) Timeout() DurationField { return f.timeout }

func (f UnhealthyConditionsField) describe() (string, []Path) {
	if f.timeout.InSeconds() {
		return "list of conditions, timeouts in seconds", []Path{f.path}
	}
	return "list of conditions, timeouts as durations", []Path{f.path}
}

func (f UnhealthyConditionsField) readEntry(e entry) (c UnhealthyCondition, err error) {
	if c.Type, err = e.needed("type"); err != nil {
		return c, err
	}
	if c.Status, err = e.needed("status"); err != nil {
		return c, err
	}
	timeout, found, err := f.timeout.Get(e.values)
	if err != nil {
		return c, e.locate(err)
	}
	if !found {
		return c, e.locate(&FieldError{Path: f.timeout.path, Want: "timeout", Got: "nothing"})
	}
	c.Timeout = timeout
	return c, nil
}

func (r *reader) unhealthyConditions(f UnhealthyConditionsField, before []UnhealthyCondition) []UnhealthyCondition {
	return readEntries(r, f.path, before, f.readEntry)
}

// VersionedRef is a Ref together with the API version that stands beside it. Templates of external remediation have no
// contract label to take it from.
type VersionedRef struct {
	Ref
	Version string
}

// GroupVersionKind returns the kind that the reference points at, in its version.
func (r VersionedRef) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupKind().WithVersion(r.Version)
}

func (r *reader) versionedRef(f RefField) VersionedRef {
	ref := VersionedRef{Ref: r.ref(f), Version: text(r, f.APIVersion)}
	if _, version, found := strings.Cut(ref.Version, "/"); found {
		ref.Version = version
	}
	return ref
}
