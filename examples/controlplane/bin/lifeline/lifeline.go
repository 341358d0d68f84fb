// Package lifeline ties the life of a component to the process that started it, by pipes, which the
// kernel closes for us however a process ends.
//
// The starter hands every component two of them:
//
//   - standard input, whose write end only the starter holds and never writes to. Its end-of-file
//     means that the starter is gone.
//   - descriptor 3, a write end that nobody writes to. The sweeper reads the other end, and its
//     end-of-file means that the starter and all components are gone.
package lifeline

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// EnvVar must be set to 1 for Hold to do anything, so that a component that is started by hand from a
// shell, or with /dev/null as standard input, does not end at once.
const EnvVar = "MACHINIST_LIFELINE"

const lastFD = 3

// Hold ends this process, without any clean-up, as soon as the starter is gone. It returns at once.
// There is nothing worth cleaning up: the sweeper deletes all data.
func Hold() {
	if os.Getenv(EnvVar) != "1" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// Marker is the file that a directory must hold for Sweep to delete it.
const Marker = "machinist-controlplane"

// Sweep waits until no process holds the write end of descriptor 3 any more, that is until the starter
// and all components have ended, and deletes dir. It refuses a directory without a Marker, because a
// slip in an argument must not cost anybody a home directory.
func Sweep(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, Marker)); err != nil {
		return fmt.Errorf("%s does not belong to a control plane: %w", dir, err)
	}
	if _, err := io.Copy(io.Discard, os.NewFile(lastFD, "lifeline")); err != nil {
		return fmt.Errorf("read descriptor %d: %w", lastFD, err)
	}
	return os.RemoveAll(dir)
}
