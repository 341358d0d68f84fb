package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// say writes one line of progress. It is safe for concurrent use.
type say func(format string, args ...any)

func newSay(w io.Writer) say {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "drain-bench: "+format+"\n", args...)
	}
}

// every calls f with the time since now until stop is called. No call begins after that.
func every(interval time.Duration, f func(elapsed time.Duration)) (stop func()) {
	start, done := time.Now(), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				f(time.Since(start))
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// progress turns the control plane's lines into lines of ours.
type progress struct{ say say }

func (p progress) Write(line []byte) (int, error) {
	p.say("%s", trimLine(line))
	return len(line), nil
}

// trimLine takes away the line's end and the control plane's own name.
func trimLine(line []byte) []byte {
	return bytes.TrimPrefix(bytes.TrimSpace(line), []byte("controlplane: "))
}
