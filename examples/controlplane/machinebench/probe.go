package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// probes are the metrics and profile addresses of a manager.
type probes struct{ ready, metrics, heap string }

// heapPath runs a garbage collection and returns text, which ends with the runtime's figures.
const heapPath = "/debug/pprof/heap?gc=1&debug=1"

// answerError is an answer other than 200.
type answerError struct {
	url  string
	code int
}

func (e *answerError) Error() string { return fmt.Sprintf("%s answers %d", e.url, e.code) }

func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", &answerError{url: url, code: response.StatusCode}
	}
	return string(body), nil
}

// cpuSeconds returns the CPU time of a manager since its start.
func (p probes) cpuSeconds(ctx context.Context) (float64, error) {
	text, err := fetch(ctx, p.metrics)
	if err != nil {
		return 0, err
	}
	return figureAfter(text, "process_cpu_seconds_total ")
}

// liveHeap returns the live bytes of a manager after a garbage collection. A second collection frees what only caches
// of the runtime hold.
func (p probes) liveHeap(ctx context.Context) (float64, error) {
	if _, err := fetch(ctx, p.heap); err != nil {
		return 0, err
	}
	text, err := fetch(ctx, p.heap)
	if err != nil {
		return 0, err
	}
	return figureAfter(text, "# HeapAlloc = ")
}

// figureAfter returns the number in the line that begins with a prefix.
func figureAfter(text, prefix string) (float64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("there is no line %q", prefix)
}
