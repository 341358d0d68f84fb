package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
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
	if len(r.Skipped) > 0 {
		out.WriteString("Not judged:\n")
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&out, "  %s: %s\n", s.Name, s.Reason)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&out, "Warning: %s\n", warning)
	}
	fmt.Fprintf(&out, "checked %d, not judged %d: %d MUST and %d SHOULD broken\n", len(r.Checked), len(r.Skipped), r.Must, r.Should)
	return out.String()
}

// text writes one block: the name, how it was judged, and what does not hold.
func (c checked) text(out *strings.Builder) {
	fmt.Fprintf(out, "%s as %s", c.Name, c.Role)
	for i, j := range c.Judged {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(out, "%s%s by contract %s", separator, j.APIVersion, j.Contract)
	}
	fmt.Fprintf(out, "\n  from    %s\n", c.Source)
	for _, f := range c.Findings {
		fmt.Fprintf(out, "  %-6s  %s\n          found %s\n          want  %s\n          rule  %s\n", f.Level, f.Path, f.Found, f.Want, f.Rule)
	}
	out.WriteString("\n")
}
