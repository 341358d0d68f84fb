package simulation_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMain prints which blocks of the code that -coverpkg names no history has reached: the profile is there once the tests have run.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // a World is garbage after its history
	m.Run()
	if profile := flag.Lookup("test.coverprofile").Value.String(); profile != "" && *seeds > 1 {
		blocks, err := neverReached(profile)
		if err = errors.Join(err, printNever(os.Stdout, blocks, isBlock)); err != nil {
			_, _ = fmt.Fprintln(os.Stdout, "the blocks that no history reached:", err)
		}
	}
}

// neverReached returns the blocks of a profile without a count as "folder/file.go:LINE FUNCTION: first line of the block", and of a function
// that was never called only that.
func neverReached(profile string) ([]string, error) {
	text, err := os.ReadFile(profile)
	var blocks []string
	uncalled := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\S+?/machinist/(\S+):(\d+)\.\d+,\S+ \d+ 0$`).FindAllStringSubmatch(string(text), -1) {
		source, err := os.ReadFile(filepath.Join("..", "..", m[1]))
		if err != nil {
			return nil, err
		}
		line, _ := strconv.Atoi(m[2])
		lines := strings.Split(string(source), "\n")[:line]
		functions := append([]string{""}, regexp.MustCompile(`(?m)^func (?:\(.*?\) )?\w+`).FindAllString(strings.Join(lines, "\n"), -1)...)
		function, what := functions[len(functions)-1], strings.TrimSpace(lines[line-1])
		if uncalled[m[1]+function] {
			continue
		}
		if function != "" && strings.HasPrefix(what, function) {
			uncalled[m[1]+function], what = true, "never called"
		}
		blocks = append(blocks, fmt.Sprintf("%s:%d %s: %s", m[1], line, strings.TrimPrefix(function, "func "), what))
	}
	return slices.Compact(blocks), err
}

// isBlock reports whether a name is that of a block.
func isBlock(name string) bool { return strings.Contains(name, "/") }

// printNever compares what never occurred with testdata/never.txt, as far as that has the same kind of names.
func printNever(to io.Writer, never []string, is func(name string) bool) error {
	text, err := os.ReadFile("testdata/never.txt")
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		listed, indented := strings.CutPrefix(line, "\t")
		if !indented || !is(listed) {
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(listed), `\*`, ".*") + "$")
		n := len(never)
		never = slices.DeleteFunc(never, func(name string) bool {
			return pattern.MatchString(regexp.MustCompile(`\.go:\d+`).ReplaceAllString(name, ".go"))
		})
		if n == len(never) {
			_, _ = fmt.Fprintf(to, "in never.txt, but it occurred: %s\n", listed)
		}
	}
	_, _ = fmt.Fprintf(to, "%d never, and not in never.txt:\n", len(never))
	for _, name := range never {
		_, _ = fmt.Fprintf(to, "\t%s\n", name)
	}
	return err
}
