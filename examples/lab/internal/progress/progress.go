// Package progress prints what a long command is doing.
package progress

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// Printf prints a line of progress. It is safe for concurrent use.
type Printf func(format string, args ...any)

// New returns a Printf that begins each line with a name. Without a writer it prints nothing.
func New(w io.Writer, name string) Printf {
	if w == nil {
		return func(string, ...any) {}
	}
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(w, name+": "+format+"\n", args...)
	}
}

// Write implements io.Writer for whole lines of another Printf, whose name it replaces by its own.
func (p Printf) Write(line []byte) (int, error) {
	_, text, _ := bytes.Cut(line, []byte(": "))
	p("%s", bytes.TrimSpace(text))
	return len(line), nil
}
