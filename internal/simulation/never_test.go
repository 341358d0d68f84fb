package simulation_test

import (
	"flag"
	"fmt"
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
	debug.SetGCPercent(1600) // a World is garbage after its history
	code := m.Run()
	if profile := flag.Lookup("test.coverprofile").Value.String(); profile != "" && *seeds > 1 {
		blocks, err := neverReached(profile)
		if err == nil {
			err = printNever(blocks, isBlock)
		}
		if err != nil {
			fmt.Println("the blocks that no history reached:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// neverReached returns the blocks of a profile without a count as "folder/file.go:LINE Function: first line of the block".
func neverReached(profile string) ([]string, error) {
	text, err := os.ReadFile(profile)
	var blocks []string
	sources := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^`+module+`/(\S+):(\d+)\.\d+,\S+ \d+ 0$`).FindAllStringSubmatch(string(text), -1) {
		if sources[m[1]] == nil {
			source, err := os.ReadFile(filepath.Join("..", "..", m[1]))
			if err != nil {
				return nil, err
			}
			sources[m[1]] = strings.Split(string(source), "\n")
		}
		line, _ := strconv.Atoi(m[2])
		functions := regexp.MustCompile(`(?m)^func (?:\(.*?\) )?(\w+)`).FindAllStringSubmatch(strings.Join(sources[m[1]][:line], "\n"), -1)
		blocks = append(blocks, fmt.Sprintf("%s:%d %s: %s", m[1], line, functions[len(functions)-1][1],
			strings.TrimSpace(sources[m[1]][line-1])))
	}
	return blocks, err
}

const module = "github.com/machinist-dev/machinist"

func isBlock(name string) bool { return strings.Contains(name, ".go") }

// unlikely is a name in testdata/never.txt: its reasons are the lines without an indent, and the indented ones that follow are the names of
// what no history is expected to have. A name may end with a star, and has no number of a line.
type unlikely struct{ name, reason string }

func (u unlikely) explains(name string) bool {
	name = regexp.MustCompile(`\.go:\d+`).ReplaceAllString(name, ".go")
	begin, star := strings.CutSuffix(u.name, "*")
	return u.name == name || star && strings.HasPrefix(name, begin)
}

func readUnlikely() ([]unlikely, error) {
	text, err := os.ReadFile("testdata/never.txt")
	var all []unlikely
	reason := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, indented := strings.CutPrefix(line, "\t"); indented {
			all = append(all, unlikely{name, reason})
		} else if line != "" && !strings.HasPrefix(line, "#") {
			reason = line
		}
	}
	return all, err
}

// printNever compares what never occurred with the list, as far as that has the same kind of names.
func printNever(never []string, is func(name string) bool) error {
	list, err := readUnlikely()
	explained := map[string]int{}
	for _, u := range list {
		n := len(never)
		never = slices.DeleteFunc(never, u.explains)
		if explained[u.reason] += n - len(never); n == len(never) && is(u.name) {
			fmt.Printf("in never.txt, but it occurred: %s\n", u.name)
		}
	}
	for reason, n := range explained {
		fmt.Printf("%8d  never: %s\n", n, reason)
	}
	fmt.Printf("%d never, and not in never.txt:\n", len(never))
	for _, name := range never {
		fmt.Printf("\t%s\n", name)
	}
	return err
}
