package arm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	readyLimit = 2 * time.Minute
	readyPoll  = 200 * time.Millisecond
	// heapPath runs a garbage collection and returns text, which ends with the runtime's figures.
	heapPath = "/debug/pprof/heap?gc=1&debug=1"
)

// probes are the addresses of a manager.
type probes struct{ ready, metrics, heap string }

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

func (p probes) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("it is not ready after %s", readyLimit))
	defer cancel()
	return wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		_, err := fetch(ctx, p.ready)
		var answer *answerError
		if errors.As(err, &answer) && answer.code != http.StatusInternalServerError {
			return false, err
		}
		return err == nil, nil
	})
}

// CPUSeconds returns the CPU time of the manager since its start.
func (p probes) CPUSeconds(ctx context.Context) (float64, error) {
	text, err := fetch(ctx, p.metrics)
	if err != nil {
		return 0, fmt.Errorf("measure CPU: %w", err)
	}
	return figureAfter(text, "process_cpu_seconds_total ")
}

// LiveHeap returns the live bytes of the manager after a garbage collection. A second collection frees what only caches of the runtime
// hold.
func (p probes) LiveHeap(ctx context.Context) (float64, error) {
	text := ""
	for range 2 {
		var err error
		if text, err = fetch(ctx, p.heap); err != nil {
			return 0, fmt.Errorf("measure live heap: %w", err)
		}
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
