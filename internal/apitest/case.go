package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	waitLimit = 2 * time.Minute
	waitStep  = 20 * time.Millisecond
)

// Env is the environment of a case.
type Env struct {
	// T is the test of the case, a *testing.T. It fails, and ends, with the first difference.
	T interface {
		Helper()
		Fatal(args ...any)
	}
	// Client is a client of the server under test: without a cache, and with a REST mapper that finds new kinds.
	Client client.WithWatch
	// Namespace exists, is empty and is used by one case only. Its name has at most 30 characters.
	Namespace string
}

// Case is one behaviour.
type Case struct {
	// Name is a sentence about the server.
	Name string
	// Reason is why this library or its users depend on it.
	Reason string

	steps []step
}

// of makes a case of its steps.
func of(name, reason string, steps ...step) Case { return Case{name, reason, steps} }

// Cases returns all cases in a fixed order. The slice is the caller's.
func Cases() []Case {
	return slices.Concat(createCases(), updateCases(), fixedCases(), patchCases(), applyCases(), sharedCases(), deleteCases(), ownerCases(),
		evictionCases(), clusterCases(), listCases(), watchCases(), kindCases())
}

// Run takes the steps of the case, until one fails. It stops when ctx ends.
func (c Case) Run(ctx context.Context, env Env) {
	r := &run{Env: env, now: map[string][]byte{}, first: map[string][]byte{}}
	defer func() {
		for _, w := range r.watches {
			w.Stop()
		}
	}()
	for i, s := range c.steps {
		if err := s(ctx, r); err != nil {
			env.T.Helper()
			env.T.Fatal(fmt.Errorf("step %d, %s: %w", i+1, r.doing, err))
		}
	}
}

// run is a case that runs. Objects and lists are JSON.
type run struct {
	Env

	now, first map[string][]byte // the objects, by "Kind/name", and lists, by kind, as they were last and first seen
	doing      string            // the last request
	view, ref  string            // its object: "Kind/name:view"
	answer     []byte            // what it returned
	watches    []watch.Interface // the last one is read
	version    uint64            // of its last event
}

// step is one thing that a case does or waits for.
type step func(ctx context.Context, r *run) error

// all takes several steps as one.
func all(parts ...step) step {
	return func(ctx context.Context, r *run) error {
		for _, s := range parts {
			if err := s(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// eventually repeats a step until it succeeds.
func eventually(s step) step {
	return func(ctx context.Context, r *run) error {
		var last error
		err := wait.PollUntilContextTimeout(ctx, waitStep, waitLimit, true, func(ctx context.Context) (bool, error) {
			last = s(ctx, r)
			return last == nil, nil
		})
		return errors.Join(err, last)
	}
}

// shows expects values of the answer.
func (s step) shows(wants ...string) step {
	return func(ctx context.Context, r *run) error {
		if err := s(ctx, r); err != nil {
			return err
		}
		return r.check(wants)
	}
}

// fails expects a refusal with a code and a reason, a text in its message, and values of its Status.
func (s step) fails(want, text string, wants ...string) step {
	return func(ctx context.Context, r *run) error {
		err := s(ctx, r)
		var known apierrors.APIStatus
		got := "accepted"
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
		return r.check(append([]string{".message has " + text}, wants...))
	}
}

// invalid expects a refusal with a cause.
func (s step) invalid(text, cause string) step {
	return s.fails("422 Invalid", text, ".details.causes[*].reason has "+cause)
}

func (s step) forbidden(text string) step { return s.invalid(text, "FieldValueForbidden") }

// check holds the answer against what is wanted of it: paths of kubectl's -o jsonpath without braces and spaces, or "owners", each with
// what matches wants.
func (r *run) check(wants []string) error {
	var problems []error
	for _, want := range wants {
		path, match, _ := strings.Cut(r.expand(want), " ")
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
	return operator == "~" && regexp.MustCompile(text).MatchString(got)
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
