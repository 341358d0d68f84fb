//go:build e2e

package e2e_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// metric is the sum of the series of a metric of the manager that have some labels, zero while it does not answer.
func (b *bursts) metric(name string, labels ...string) float64 {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+b.metrics+"/metrics", http.NoBody)
	require.NoError(b.t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	sum := 0.0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if !found || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		if slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		require.NoError(b.t, err)
		sum += value
	}
	return sum
}

// quiet waits until the manager has looked at no Machine for longer than any status may stay unwritten.
func (b *bursts) quiet() {
	b.t.Helper()
	const longest = 6 * time.Second // five status delays, and one for the clock
	last, since := -1.0, time.Now()
	b.settled("no more looks at Machines", func() string {
		now := b.metric("controller_runtime_reconcile_total")
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < longest {
			return fmt.Sprintf("%.0f looks so far", now)
		}
		return ""
	})
}
