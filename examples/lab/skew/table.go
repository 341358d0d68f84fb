package skew

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// row is what was measured with one library.
type row struct {
	library

	unit outcome
	// ends are the end-to-end tests, one for each server.
	ends []outcome
}

// outcome is what a run of "go test" reports. Only tests at the top level count.
type outcome struct {
	passed, failed []string
	// broken is what the compiler refuses, each once.
	broken []string
}

func (o outcome) passes() bool { return len(o.broken) == 0 && len(o.failed) == 0 && len(o.passed) > 0 }

// String is a cell of the table.
func (o outcome) String() string {
	switch all := len(o.passed) + len(o.failed); {
	case len(o.broken) > 0:
		return strings.ReplaceAll("does not compile: `"+strings.Join(o.broken, "`, `")+"`", "|", "\\|")
	case all == 0:
		return "not run"
	case len(o.failed) == 0:
		return fmt.Sprintf("%d pass", all)
	default:
		return fmt.Sprintf("%d of %d fail: %s", len(o.failed), all, strings.Join(o.failed, ", "))
	}
}

// wanting counts tests that did not run among those that fail, because a name that changes must not look like a success.
func (o outcome) wanting(names []string) outcome {
	if len(o.broken) > 0 {
		return o
	}
	for _, name := range names {
		if !slices.Contains(o.passed, name) && !slices.Contains(o.failed, name) {
			o.failed = append(o.failed, name)
		}
	}
	return o
}

// event is a line of "go test -json".
type event struct {
	Action, Package, Test, Output string
}

// readEvents reads the output of "go test -json" to its end. What failed tests print goes to log.
func readEvents(r io.Reader, log io.Writer) (outcome, error) {
	var o outcome
	printed := map[string]*strings.Builder{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) == nil {
			o.take(e, printed, log)
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(o.passed)
			slices.Sort(o.failed)
			return o, nil
		}
		if err != nil {
			return o, err
		}
	}
}

// complaint is a line of the compiler: a place, of which the column is left out, and what is wrong there, without the members of a type.
func complaint() *regexp.Regexp {
	return regexp.MustCompile(`^(\S+\.go:[0-9]+)(?::[0-9]+)?(: .*?)(?: \(type .* has no [^()]*\))?\n?$`)
}

// take counts one event.
func (o *outcome) take(e event, printed map[string]*strings.Builder, log io.Writer) {
	top, _, isSub := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	switch e.Action {
	case "build-output":
		// Other lines name packages, or belong to the line before.
		if m := complaint().FindStringSubmatch(e.Output); len(m) > 0 && !slices.Contains(o.broken, m[1]+m[2]) {
			o.broken = append(o.broken, m[1]+m[2])
		}
		_, _ = io.WriteString(log, e.Output)
	case "output":
		if printed[key] == nil {
			printed[key] = &strings.Builder{}
		}
		printed[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		if isSub {
			return
		}
		if e.Action == "fail" && printed[key] != nil {
			_, _ = io.WriteString(log, printed[key].String())
		}
		delete(printed, key)
		o.end(e)
	}
}

// end counts a test that has ended, or a package that fails without a test that does, as one that panics or does not start.
func (o *outcome) end(e event) {
	switch {
	case e.Test == "" && e.Action == "fail" && len(o.broken) == 0 && len(o.failed) == 0:
		o.failed = append(o.failed, e.Package)
	case e.Test == "" || e.Action == "skip":
	case e.Action == "fail":
		o.failed = append(o.failed, e.Test)
	default:
		o.passed = append(o.passed, e.Test)
	}
}

// table is Markdown.
func table(servers []server, rows []row) string {
	var out strings.Builder
	out.WriteString("| controller-runtime | k8s.io/* | tests of the root module |")
	for _, s := range servers {
		fmt.Fprintf(&out, " on Kubernetes %s |", s.version)
	}
	out.WriteString("\n" + strings.Repeat("|---", 3+len(servers)) + "|\n")
	for _, r := range rows {
		pinned := ""
		if r.pinned {
			pinned = ", required"
		}
		fmt.Fprintf(&out, "| %s%s | %s | %s |", r.runtime, pinned, r.kubernetes, r.unit)
		for _, end := range r.ends {
			fmt.Fprintf(&out, " %s |", end)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// failures is an error if a test failed anywhere. That a version does not compile with the library is for the table, unless it is required.
func failures(rows []row) error {
	var errs []error
	for _, r := range rows {
		if len(r.unit.broken) > 0 && !r.pinned {
			continue
		}
		for _, o := range append([]outcome{r.unit}, r.ends...) {
			if !o.passes() {
				errs = append(errs, fmt.Errorf("controller-runtime %s: %s", r.runtime, o))
			}
		}
	}
	return errors.Join(errs...)
}
