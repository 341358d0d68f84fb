package testenv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/fake"
)

const (
	// Limit bounds every wait, so that a test ends when what it waits for never comes. How busy the machine is decides how long it takes
	// otherwise: dozens of tests run beside each other.
	Limit = 2 * time.Minute
	// Interval is the time between two polls.
	Interval = 20 * time.Millisecond
)

// Eventually polls until check returns an empty text, and fails with the last text.
func (e *Env) Eventually(what string, check func() string) {
	e.T.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(e.T.Context(), Interval, Limit, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		e.T.Fatalf("%s: %s", what, last)
	}
}

// Until polls until check returns true. Use it where a failure needs no more than the name of what never came.
func (e *Env) Until(what string, check func() bool) {
	e.T.Helper()
	e.Eventually(what, func() string {
		if check() {
			return ""
		}
		return "it never came"
	})
}

// Gone waits until objects are gone.
func (e *Env) Gone(objects ...*unstructured.Unstructured) {
	e.T.Helper()
	for _, obj := range objects {
		e.Eventually("deletion of "+obj.GetKind()+" "+obj.GetName(), func() string {
			if fresh := e.Get(obj); fresh != nil {
				return "it is still there: " + Describe(fresh)
			}
			return ""
		})
	}
}

// Remove deletes objects, and waits until they are gone.
func (e *Env) Remove(objects ...*unstructured.Unstructured) {
	e.T.Helper()
	for _, obj := range objects {
		e.Delete(obj)
	}
	e.Gone(objects...)
}

// AwaitCondition waits until a condition of an object has a reason, any with an empty one, and a message with all parts, and returns it. A
// reason may come with another message first, while something has yet to be read.
func (e *Env) AwaitCondition(obj *unstructured.Unstructured, kind, reason string, parts ...string) (c metav1.Condition) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("%s to have %s %q", kind, reason, parts), func() string {
		fresh := e.Get(obj)
		c = Condition(fresh, kind)
		lacks := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) })
		if c.Type == "" || (reason != "" && c.Reason != reason) || lacks {
			return "it does not: " + Describe(fresh)
		}
		return ""
	})
	return c
}

// Writes returns the writes of a user agent, in order, without those of events: a recorder sends them later.
func (e *Env) Writes(agent string) []fake.Request {
	return slices.DeleteFunc(e.Store.Requests(), func(r fake.Request) bool {
		return r.UserAgent != agent || !r.IsWrite() || r.GVK.Kind == "Event"
	})
}

// Count counts requests by a name; an empty name is not counted.
func Count(requests []fake.Request, name func(fake.Request) string) map[string]int {
	counts := map[string]int{}
	for _, r := range requests {
		if key := name(r); key != "" {
			counts[key]++
		}
	}
	return counts
}

// Quiet waits until a user agent has made no request for some time, watches aside.
func (e *Env) Quiet(agent string, during time.Duration) {
	e.T.Helper()
	e.Still("requests of "+agent, during, func() int {
		return e.Store.CountRequests(func(r fake.Request) bool { return r.UserAgent == agent && r.Verb != "watch" })
	})
}

// Still waits until a number has not changed for some time.
func (e *Env) Still(what string, during time.Duration, count func() int) {
	e.T.Helper()
	var calm Calm
	e.Eventually(what+" to end", func() string { return calm.For(count(), during) })
}

// Calm notices for how long a number has not changed. The zero value is ready for use.
type Calm struct {
	before int
	since  time.Time
}

// For returns an empty text when the number has been the same in all calls for some time, and then begins anew. Otherwise it returns what
// is missing.
func (c *Calm) For(now int, during time.Duration) string {
	if c.since.IsZero() || now != c.before {
		c.before, c.since = now, time.Now()
	}
	if left := during - time.Since(c.since); left > 0 {
		return fmt.Sprintf("there are %d, and more may come for %s", now, left)
	}
	c.since = time.Time{}
	return ""
}

// Never polls for some time, and fails with the first text that check returns.
func (e *Env) Never(what string, during time.Duration, check func() string) {
	e.T.Helper()
	problem := ""
	err := wait.PollUntilContextTimeout(e.T.Context(), Interval, during, true, func(context.Context) (bool, error) {
		problem = check()
		return problem != "", nil
	})
	if err == nil {
		e.T.Errorf("%s: %s", what, problem)
	}
}
