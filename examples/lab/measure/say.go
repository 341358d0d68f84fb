package measure

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// Say writes one line of progress. It is safe for concurrent use.
type Say func(format string, args ...any)

// NewSay returns a Say that starts each line with the name of the benchmark.
func NewSay(w io.Writer, name string) Say {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, name+": "+format+"\n", args...)
	}
}

// Progress prints the control plane's lines as lines of the benchmark; use it as the Log of cluster.Options.
type Progress struct{ Say Say }

// Write implements io.Writer for whole lines.
func (p Progress) Write(line []byte) (int, error) {
	p.Say("%s", trimLine(line))
	return len(line), nil
}

// trimLine removes the line's end and the control plane's own name.
func trimLine(line []byte) []byte {
	return bytes.TrimPrefix(bytes.TrimSpace(line), []byte("controlplane: "))
}
