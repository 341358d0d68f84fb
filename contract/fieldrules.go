package contract

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HealthRulesField is the place of a list of rules about conditions: type, status and a timeout. The zero HealthRulesField is "no such
// place": it reads as absent. Safe for concurrent use as long as the object is not written.
type HealthRulesField struct {
	path    Path
	timeout DurationField
	member  string
}

// HealthRulesInSeconds returns the HealthRulesField at the given keys whose timeouts are numbers of seconds, in timeoutSeconds.
func HealthRulesInSeconds(segments ...string) HealthRulesField {
	return HealthRulesField{path: NewPath(segments...), timeout: SecondsAt("timeoutSeconds"), member: "timeoutSeconds"}
}

// HealthRulesAt returns the HealthRulesField at the given keys whose timeouts are duration texts, in timeout.
func HealthRulesAt(segments ...string) HealthRulesField {
	return HealthRulesField{path: NewPath(segments...), timeout: DurationAt("timeout"), member: "timeout"}
}

// Path returns the place; it is the zero Path when the layout has none.
func (f HealthRulesField) Path() Path { return f.path }

func (f HealthRulesField) describe() (string, []Path) {
	return "list of rules with " + f.member, []Path{f.path}
}

// read needs all members: a rule without a timeout would apply at once.
func (f HealthRulesField) read(e entry) (HealthRule, error) {
	kind, err := e.needed("type")
	if err != nil {
		return HealthRule{}, err
	}
	status, err := e.needed("status")
	if err != nil {
		return HealthRule{}, err
	}
	timeout, found, err := f.timeout.Get(e.values)
	if err != nil {
		return HealthRule{}, e.locate(err)
	}
	if want, _ := f.timeout.describe(); !found || timeout < 0 {
		return HealthRule{}, &FieldError{Path: e.path(f.member), Want: want, Got: gotTimeout(timeout)}
	}
	return HealthRule{Type: kind, Status: metav1.ConditionStatus(status), Timeout: timeout}, nil
}

func gotTimeout(d time.Duration) string {
	if d < 0 {
		return d.String()
	}
	return "nothing"
}

// versionedRefAt returns the RefField of the shape apiVersion, kind, name at the given keys.
func versionedRefAt(segments ...string) RefField {
	member := memberOf(segments)
	return RefField{APIVersion: member("apiVersion"), Kind: member("kind"), Name: member("name")}
}

// versionIn returns the version of an apiVersion.
func versionIn(apiVersion string) string {
	_, version, found := strings.Cut(apiVersion, "/")
	if !found {
		return apiVersion
	}
	return version
}
