package cluster

import (
	"fmt"
	"io"
	"sync"
)

// say writes one line of progress. It is safe for concurrent use.
type say func(format string, args ...any)

func newSay(w io.Writer) say {
	if w == nil {
		return func(string, ...any) {}
	}
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(w, "controlplane: "+format+"\n", args...)
	}
}
