package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// guard is the name of the function that reports whether a mutant is active. No package of this library uses this name.
const guard = "mutant_"

// Environment variables of a test binary.
const (
	envMutant  = "MUTATE_MUTANT"  // the number of the active mutant
	envReached = "MUTATE_REACHED" // a file for the numbers of the mutants that were reached, one per line
)

// guardSource is a file that is compiled into the package.
func guardSource(pkg string, mutants int) []byte {
	return fmt.Appendf(nil, `package %[1]s

import (
	mutantos "os"
	mutantconv "strconv"
	mutantatomic "sync/atomic"
)

var (
	mutantChosen  = func() int { n, err := mutantconv.Atoi(mutantos.Getenv(%[3]q)); if err != nil { return -1 }; return n }()
	mutantReached = func() *mutantos.File {
		f, _ := mutantos.OpenFile(mutantos.Getenv(%[4]q), mutantos.O_APPEND|mutantos.O_CREATE|mutantos.O_WRONLY, 0o600)
		return f
	}()
	mutantSeen    [%[5]d]mutantatomic.Bool
)

func %[2]s(n int) bool {
	if mutantReached != nil && !mutantSeen[n].Load() && !mutantSeen[n].Swap(true) {
		mutantReached.WriteString(mutantconv.Itoa(n) + "\n")
	}
	return n == mutantChosen
}
`, pkg, guard, envMutant, envReached, max(mutants, 1))
}

// insertion is text of a mutant that is inserted into a file.
type insertion struct {
	at     int
	opens  bool
	length int // of the enclosed source
	text   string
	number int
}

// instrumented is a file with its mutants.
type instrumented struct {
	source []byte
	// encloses is the current position of each mutant, widest first.
	encloses map[int][]span
}

// instrument inserts mutants with these numbers into the source of a file. Line numbers do not change.
func instrument(source []byte, mutants map[int]mutant) instrumented {
	var all []insertion
	for number, m := range mutants {
		before, after := "((", fmt.Sprintf(") != %s(%d))", guard, number)
		if m.kind == kindCall {
			before, after = fmt.Sprintf("if !%s(%d) { ", guard, number), " }"
		}
		for _, s := range m.spans {
			length := s.end - s.start
			all = append(all, insertion{s.start, true, length, before, number}, insertion{s.end, false, length, after, number})
		}
	}
	slices.SortFunc(all, func(a, b insertion) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.opens != b.opens: // what ends here ends before something begins
			if a.opens {
				return 1
			}
			return -1
		case a.opens: // the widest begins first, and ends last
			return cmp.Or(cmp.Compare(b.length, a.length), cmp.Compare(a.number, b.number))
		default:
			return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(b.number, a.number))
		}
	})
	return insert(source, all)
}

func insert(source []byte, all []insertion) instrumented {
	out, done := bytes.Buffer{}, 0
	result := instrumented{encloses: map[int][]span{}}
	begun := map[int][]int{}
	for _, i := range all {
		out.Write(source[done:i.at])
		done = i.at
		if i.opens {
			begun[i.number] = append(begun[i.number], out.Len())
		}
		out.WriteString(i.text)
		if open := begun[i.number]; !i.opens {
			result.encloses[i.number] = append(result.encloses[i.number], span{open[len(open)-1], out.Len()})
			begun[i.number] = open[:len(open)-1]
		}
	}
	out.Write(source[done:])
	result.source = out.Bytes()
	return result
}

// blamed returns the mutants that caused a compiler error at a line and a column: the smallest one that encloses the
// position, or else all of the line.
func (f instrumented) blamed(line, column int) []int {
	lines := bytes.SplitAfter(f.source, []byte("\n"))
	if line < 1 || line > len(lines) {
		return nil
	}
	start := len(bytes.Join(lines[:line-1], nil))
	at, end := start+column-1, start+len(lines[line-1])
	smallest, length := -1, 0
	var onLine []int
	for number, spans := range f.encloses {
		for _, s := range spans {
			if n := s.end - s.start; s.start <= at && at < s.end && (smallest < 0 || n < length || n == length && number < smallest) {
				smallest, length = number, n
			}
			if s.start < end && s.end > start {
				onLine = append(onLine, number)
			}
		}
	}
	if smallest >= 0 {
		return []int{smallest}
	}
	slices.Sort(onLine)
	return slices.Compact(onLine)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
