package apitest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/jsonpath"
)

// compare compares what a request returned with what a step expects. The answer of a refused request is its Status.
func (r *run) compare(s step, err error) error {
	const accepted = "accepted"
	got, want, known := accepted, cmp.Or(s.Fails, accepted), apierrors.APIStatus(nil)
	switch {
	case errors.As(err, &known):
		status := known.Status()
		got = strings.TrimSpace(fmt.Sprintf("%d %s", status.Code, status.Reason))
		r.answer, _ = json.Marshal(status) // a Status has nothing that cannot be encoded
	case meta.IsNoMatchError(err):
		got, r.answer = "no match", []byte("{}")
	case err != nil:
		return err
	}
	if got != want {
		return errors.Join(fmt.Errorf("the answer is %q, want %q", got, want), err)
	}
	expected := s.Shows
	if s.Message != "" {
		expected += "\n.message has " + s.Message
	}
	if s.Cause != "" {
		expected += "\n.details.causes[*].reason has " + s.Cause
	}
	return r.check(expected)
}

// check compares the answer with lines of what is wanted: a path of kubectl's -o jsonpath without braces and spaces, or "owners", and what
// matches expected.
func (r *run) check(expected string) error {
	var problems []error
	for want := range strings.Lines(expected) {
		path, match, _ := strings.Cut(strings.TrimSpace(r.expand(want)), " ")
		if path == "" {
			continue
		}
		got, err := valueAt(r.answer, "{"+path+"}")
		if path == "owners" {
			got, err = ownersOf(r.answer)
		}
		if err != nil || !matches(got, match) {
			problems = append(problems, errors.Join(fmt.Errorf("%s is %q, want: %s", path, got, match), err))
		}
	}
	return errors.Join(problems...)
}

// matches reports whether a value is as wanted: "= TEXT", "!= TEXT", "has TEXT", "~ EXPRESSION", "present" or "absent".
func matches(got, want string) bool {
	operator, text, _ := strings.Cut(want, " ")
	switch operator {
	case "=", "absent":
		return got == text
	case "!=", "present":
		return got != text
	case "has":
		return strings.Contains(got, text)
	}
	found, err := regexp.MatchString(text, got)
	return operator == "~" && err == nil && found
}

// valueAt returns what an object has at a path: a text, JSON, or several of these with spaces between them; nothing if it has none.
func valueAt(content []byte, path string) (string, error) {
	var parsed any
	var out strings.Builder
	p := jsonpath.New("path").AllowMissingKeys(true)
	err := errors.Join(json.Unmarshal(content, &parsed), p.Parse(path))
	if err == nil {
		err = p.Execute(&out, parsed)
	}
	return out.String(), err
}

// ownersOf returns the fields of each manager, as "manager/operation/subresource fields".
func ownersOf(content []byte) (string, error) {
	text, err := valueAt(content, `{range .metadata.managedFields[*]}{.manager}/{.operation}/{.subresource} {.fieldsV1}{"\n"}{end}`)
	owners := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(owners)
	return strings.Join(owners, "; "), err
}
