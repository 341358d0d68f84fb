// Command ignition reads documents with Ignition's own parser and fails if it reports anything about one. It is a module of its own,
// because those who import the library do not need Ignition.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/coreos/ignition/v2/config"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: ignition FILE...")
		os.Exit(2)
	}
	failed := false
	for _, file := range os.Args[1:] {
		content, err := os.ReadFile(file)
		if err == nil {
			err = check(content)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Printf("Ignition accepts %d documents\n", len(os.Args)-1)
}

// check returns what Ignition reports about a document, warnings included.
func check(document []byte) error {
	_, report, err := config.Parse(document)
	if err == nil && len(report.Entries) > 0 {
		err = errors.New("it has warnings")
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, report.String())
	}
	return nil
}
