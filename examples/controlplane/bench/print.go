package bench

import (
	"encoding/json"
	"fmt"
	"io"
)

// Print writes a result in a format, "json" or text, and ends with lines that other programs read. With JSON, where they are
// expected in the result, they go to stderr for people.
func Print(stdout, stderr io.Writer, format string, result any, tables func(io.Writer), lines ...string) error {
	if format == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(result); err != nil {
			return err
		}
		stdout = stderr
	} else {
		tables(stdout)
	}
	for _, line := range lines {
		fmt.Fprintln(stdout, line)
	}
	return nil
}
