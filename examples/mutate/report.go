package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// report is the printed result.
type report struct {
	Packages []packageReport `json:"packages"`
}

// packageReport is the result of the mutants of one package.
type packageReport struct {
	Package string `json:"package"`
	// Mutants is how many compile: killed, survived, not reached, and those that were not tried because of an
	// interruption.
	Mutants int `json:"mutants"`
	// Killed counts also those that were killed by timeout.
	Killed         int `json:"killed"`
	KilledByTime   int `json:"killedByTimeout"`
	Survived       int `json:"survived"`
	NotReached     int `json:"notReached"`
	NotTried       int `json:"notTried,omitempty"`
	LeftOut        int `json:"leftOut"`
	ScoreInPercent int `json:"scoreInPercent"`
	// Survivors are those that survived, and those that were not reached.
	Survivors []survivor `json:"survivors"`
	// FailingTests fail without a mutant, and were not used.
	FailingTests []string `json:"failingTests,omitempty"`
}

// survivor is a mutant that no test detects.
type survivor struct {
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Kind    kind    `json:"kind"`
	Change  string  `json:"change"`
	Verdict verdict `json:"verdict"`
}

func count(all []verdict, wanted verdict) int {
	n := 0
	for _, v := range all {
		if v == wanted {
			n++
		}
	}
	return n
}

func (p *packageReport) count(all []verdict) {
	p.LeftOut, p.NotTried = count(all, leftOut), count(all, notTried)
	p.KilledByTime, p.Survived, p.NotReached = count(all, killedByTime), count(all, survived), count(all, notReached)
	p.Killed = count(all, killed) + p.KilledByTime
	p.Mutants = len(all) - p.LeftOut
	if tried := p.Mutants - p.NotTried; tried > 0 {
		p.ScoreInPercent = 100 * p.Killed / tried
	}
}

func (r report) write(w io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "mutants\tkilled\tby timeout\tsurvived\tnot reached\tnot tried\tleft out\tscore\t package")
	for _, p := range r.Packages {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d %%\t %s\n", p.Mutants, p.Killed, p.KilledByTime, p.Survived, p.NotReached, p.NotTried,
			p.LeftOut, p.ScoreInPercent, p.Package)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	here, _ := os.Getwd() // an absolute path is correct as well
	for _, p := range r.Packages {
		for _, name := range p.FailingTests {
			fmt.Fprintf(w, "\n%s: %s fails without a mutant, and was left out\n", p.Package, name)
		}
		if len(p.Survivors) > 0 {
			fmt.Fprintf(w, "\n%s\n", p.Package)
		}
		for _, s := range p.Survivors {
			file := s.File
			if rel, err := filepath.Rel(here, s.File); err == nil && !strings.HasPrefix(rel, "..") {
				file = rel
			}
			fmt.Fprintf(w, "  %s:%d: %s: %s\n", file, s.Line, s.Verdict, s.Change)
		}
	}
	return nil
}
