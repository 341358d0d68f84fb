package conformance

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// CheckObject lints an object of a provider against one contract version. What a provider
// has not written yet is not missing: an object that has just been made breaks no rule, and one that says that it is done
// must say the rest. It takes any JSON object, neither changes nor keeps it, and gives the same report for the same object.
func CheckObject(obj *unstructured.Unstructured, role Role, version contract.Version) Report {
	j := &judge{role: role}
	places := placesOf(role, version)
	switch {
	case obj == nil || obj.Object == nil:
		j.find(Must, "kind", nothing, "an object", "All resources: TypeMeta: an object has a kind")
		return j.report()
	case places == nil:
		j.find(Must, "kind", fmt.Sprintf("role %s of contract %q", role, clip(string(version))), "a role and a contract that have rules",
			"the caller chose what has no rules")
		return j.report()
	}
	j.judged = append(j.judged, Judged{APIVersion: clip(obj.GroupVersionKind().Version), Contract: version})
	for _, key := range []string{"apiVersion", "kind"} {
		if textAt(obj.Object, key) == "" {
			j.find(Must, key, nothing, typeString, "All resources: TypeMeta: an object has an API version and a kind")
		}
	}
	for _, p := range places {
		j.value(obj.Object, version, p)
	}
	j.state(obj.Object, version)
	return j.report()
}

// value judges one place by its readers.
func (j *judge) value(obj map[string]any, v contract.Version, p place) {
	_, errs := p.Read(obj)
	rule := j.ruleName(v, p) + ": a value of another type cannot be read"
	for _, err := range errs {
		if e, ok := errors.AsType[*contract.FieldError](err); ok {
			j.find(Must, clip(e.Path.String()), clip(e.Got), e.Want, rule)
			continue
		}
		j.find(Must, p.main.String(), clip(err.Error()), p.shape.name, rule)
	}
}
