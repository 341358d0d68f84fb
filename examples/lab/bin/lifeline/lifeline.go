// Package lifeline ends a component with the process that started it. It uses pipes, which the kernel closes however a
// process ends.
//
// The starter passes two pipes to every component:
//
//   - standard input, whose write end only the starter has and never writes to. Its end-of-file means that the starter
//     is gone.
//   - descriptor 3, an unused write end. The sweeper reads the other end, and its end-of-file means that the starter
//     and all components are gone.
package lifeline

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// EnvVar must be 1 for Hold to have an effect, so that a component that is started by hand from a shell, or with
// /dev/null as standard input, does not end at once.
const EnvVar = "MACHINIST_LIFELINE"

const lastFD = 3

// Hold ends this process without clean-up as soon as the starter is gone. It returns at once. No clean-up is needed,
// because the sweeper deletes all data.
func Hold() {
	if os.Getenv(EnvVar) != "1" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// Marker is the file that a directory must contain for Sweep to delete it.
const Marker = "machinist-controlplane"

// Sweep waits until no process has the write end of descriptor 3 open, that is until the starter and all components
// have ended, and deletes dir. It refuses a directory without a Marker, so that a wrong argument does not delete other
// data.
func Sweep(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, Marker)); err != nil {
		return fmt.Errorf("%s does not belong to a control plane: %w", dir, err)
	}
	if _, err := io.Copy(io.Discard, os.NewFile(lastFD, "lifeline")); err != nil {
		return fmt.Errorf("read descriptor %d: %w", lastFD, err)
	}
	return os.RemoveAll(dir)
}
