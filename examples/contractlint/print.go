package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/machinist-dev/machinist/contract/conformance"
)

// write prints the result as text or as one JSON object.
func (r result) write(w io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

func (r result) text() string {
	var out strings.Builder
	for _, c := range r.Checked {
		c.text(&out)
	}
	list(&out, "Questions", r.Questions)
	list(&out, "Not judged", r.Skipped)
	for _, warning := range r.Warnings {
		fmt.Fprintf(&out, "Warning: %s\n", warning)
	}
	open := ""
	if len(r.Questions) > 0 {
		open = ", " + count(len(r.Questions), "question", "questions")
	}
	fmt.Fprintf(&out, "%s checked, %d not judged%s: %d MUST and %d SHOULD broken.\n",
		count(len(r.Checked), "CRD or object", "CRDs and objects"), len(r.Skipped), open, r.Must, r.Should)
	return out.String()
}

func list(out *strings.Builder, title string, items []skipped) {
	if len(items) == 0 {
		return
	}
	out.WriteString(title + ":\n")
	for _, s := range items {
		fmt.Fprintf(out, "  %s: %s\n", s.Name, s.Reason)
	}
	out.WriteString("\n")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Columns of a finding's text, and of the report.
const (
	indent = 10
	width  = 120
)

// text writes one block: the name, how it was judged, what holds, what does not.
func (c checked) text(out *strings.Builder) {
	fmt.Fprintf(out, "%s as %s", c.Name, c.As)
	for i, j := range c.Judged {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(out, "%s%s by contract %s", separator, j.APIVersion, j.Contract)
	}
	out.WriteString("\n")
	row(out, 2, "from", c.Source)
	if c.Note != "" {
		row(out, 2, "note", c.Note)
	}
	for _, line := range passedLines(c.Passed) {
		row(out, 2, "ok", line)
	}
	for _, f := range c.Findings {
		row(out, 2, f.Level.String(), f.Path)
		row(out, indent, "found", f.Found)
		row(out, indent, "want", f.Want)
		row(out, indent, "rule", f.Rule)
	}
	out.WriteString("\n")
}

// row writes a word and a text beside it, broken between words.
func row(out *strings.Builder, at int, word, text string) {
	line := fmt.Sprintf("%*s%-6s ", at, "", word)
	left := len(line)
	for part := range strings.FieldsSeq(text) {
		if len(line) > left && len(line)+1+len(part) > width {
			out.WriteString(line + "\n")
			line = strings.Repeat(" ", left)
		}
		line += " " + part
	}
	out.WriteString(line + "\n")
}

// passedLines puts what holds for one API version on one line: people read what is broken.
func passedLines(passed []conformance.Pass) []string {
	var lines []string
	last := ""
	for _, p := range passed {
		where, place, split := strings.Cut(p.Path, ": ")
		if !split {
			where, place = "", p.Path
		}
		item := place + " (" + p.Fact + ")"
		if where == last && len(lines) > 0 {
			lines[len(lines)-1] += ", " + item
			continue
		}
		if where != "" {
			item = where + ": " + item
		}
		lines, last = append(lines, item), where
	}
	return lines
}
