package bench

import (
	"encoding/json"
	"fmt"
	"io"
)

// Print writes a result as "json" or text, followed by lines that other programs read. With JSON, which contains them,
// these lines go to stderr.
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
