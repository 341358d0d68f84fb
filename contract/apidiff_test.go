package contract_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// apiDiff is how an exported API differs from the one that was promised.
type apiDiff struct {
	// added are promises that can be made.
	added []string
	// gone are promises that were broken: "- line", and below it "+ line" where something of the same name came instead.
	gone []string
}

func (d apiDiff) String() string {
	var out strings.Builder
	if len(d.gone) > 0 {
		fmt.Fprintf(&out, "  promised, and gone or changed:\n    %s\n", strings.Join(d.gone, "\n    "))
	}
	if len(d.added) > 0 {
		fmt.Fprintf(&out, "  not promised yet:\n    + %s\n", strings.Join(d.added, "\n    + "))
	}
	return out.String()
}

// diffAPI compares lines of apiLines. Two lines are equal when they are as their imports explain them.
func diffAPI(promised, have []string) apiDiff {
	before, after := explain(promised), explain(have)
	isNew := func(i int) bool { return !isImport(have[i]) && !slices.Contains(before, after[i]) }
	var d apiDiff
	replaced := map[int]bool{}
	for i, line := range promised {
		if isImport(line) || slices.Contains(after, before[i]) {
			continue
		}
		d.gone = append(d.gone, "- "+line)
		for at, other := range have {
			if isNew(at) && !replaced[at] && subject(other) == subject(line) {
				d.gone = append(d.gone, "+ "+other)
				replaced[at] = true
			}
		}
	}
	for i, line := range have {
		if isNew(i) && !replaced[i] {
			d.added = append(d.added, line)
		}
	}
	return d
}

var (
	importPattern = regexp.MustCompile(`^import (\w+) "(.*)"$`)
	// namePattern is a package's name before an exported one, not the end of a path.
	namePattern = regexp.MustCompile(`(^|[^\w/])(\w+)(\.[A-Z])`)
	// subjectPattern is what a line is about: its kind, the type it belongs to, and its name.
	subjectPattern = regexp.MustCompile(`^(method \([^)]*\) \w+|type \w+(\[[^\]]*\])? (struct|interface), (embedded )?[\w.]+|\w+ \w+)`)
)

func isImport(line string) bool { return importPattern.MatchString(line) }

func subject(line string) string { return subjectPattern.FindString(line) }

// explain writes the paths of packages for their names.
func explain(lines []string) []string {
	paths := map[string]string{}
	for _, line := range lines {
		if m := importPattern.FindStringSubmatch(line); m != nil {
			paths[m[1]] = m[2]
		}
	}
	explained := make([]string, len(lines))
	for i, line := range lines {
		explained[i] = namePattern.ReplaceAllStringFunc(line, func(part string) string {
			m := namePattern.FindStringSubmatch(part)
			if path := paths[m[2]]; path != "" {
				return m[1] + path + m[3]
			}
			return part
		})
	}
	return explained
}
