package contract

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rulesInSecondsAt returns the Field of rules whose timeouts are numbers of seconds, in timeoutSeconds. Those of At are texts, in timeout.
func rulesInSecondsAt(segments ...string) Field[[]HealthRule] {
	return Field[[]HealthRule]{path: NewPath(segments...), form: formSeconds}
}

// The readers of rules, which are made once because every read needs them.
var (
	readRule          = ruleReader(timeoutOf(formPlain))
	readRuleInSeconds = ruleReader(timeoutOf(formSeconds))
)

// ruleReaderOf returns what reads a rule in a form.
func ruleReaderOf(form form) func(entry) (HealthRule, error) {
	if form == formSeconds {
		return readRuleInSeconds
	}
	return readRule
}

// timeoutOf returns the place of the timeout in a rule.
func timeoutOf(form form) Field[time.Duration] {
	if form == formSeconds {
		return SecondsAt("timeoutSeconds")
	}
	return At[time.Duration]("timeout")
}

// ruleReader returns what reads a rule. It needs all members: a rule without a timeout would apply at once.
func ruleReader(at Field[time.Duration]) func(entry) (HealthRule, error) {
	return func(e entry) (HealthRule, error) {
		kind, err := e.needed("type")
		if err != nil {
			return HealthRule{}, err
		}
		status, err := e.needed("status")
		if err != nil {
			return HealthRule{}, err
		}
		timeout, found, err := at.Get(e.values)
		if err != nil {
			return HealthRule{}, e.locate(err)
		}
		if !found || timeout < 0 {
			return HealthRule{}, &FieldError{Path: e.path(at.path.text), Want: at.typeName(), Got: gotTimeout(timeout)}
		}
		return HealthRule{Type: kind, Status: metav1.ConditionStatus(status), Timeout: timeout}, nil
	}
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
