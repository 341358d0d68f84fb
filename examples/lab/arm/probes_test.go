package arm

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAManagerTellsItsCPUTimeAndItsLiveHeap(t *testing.T) {
	collections := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := "# HELP process_cpu_seconds_total CPU\nprocess_cpu_seconds_total 1.25e+00\n"
		if r.URL.Path != "/metrics" {
			if r.URL.Query().Get("gc") == "1" {
				collections++
			}
			text = "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# HeapAlloc = 2048\n# HeapSys = 4096\n"
		}
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	p := probes{metrics: server.URL + "/metrics", heap: server.URL + heapPath}
	cpu, err := p.CPUSeconds(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 1.25, cpu, 1e-9)
	live, err := p.LiveHeap(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 2048, live, 1e-9)
	require.Equal(t, 2, collections)

	_, err = probes{metrics: server.URL + heapPath}.CPUSeconds(t.Context())
	require.ErrorContains(t, err, "process_cpu_seconds_total")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.LiveHeap(gone)
	require.ErrorIs(t, err, context.Canceled)
}
