package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

// ranBefore reports whether this process has registered the metrics of a manager.
func ranBefore(t *testing.T) bool {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "machinist_") {
			return true
		}
	}
	return false
}

// servesMetrics: what the manager knows of one Machine that it looks after, and of a MachineDeployment.
func servesMetrics(ctx context.Context, t *testing.T, store *fake.Store, address string) {
	t.Helper()
	deployment := fake.Machine("d1")
	deployment.SetGroupVersionKind(api.ClusterAPI.MachineDeployment().GVK)
	deployment.Object["spec"] = map[string]any{"replicas": int64(3)}
	require.NoError(t, store.Client().Create(ctx, deployment))
	want := []string{
		`machine_controller_machines_total{controller="machine",provider="FakeMachine"} 1`,
		`machine_controller_workers_running{controller="machine"} `,
		`machine_controller_machine_deployment_replicas{controller="machine",state="desired"} 3`,
		`machine_controller_errors_total{controller="machine",operation="drain"} 0`,
		`machinist_machines{controller="machine",phase="none"} 1`,
		`machinist_machinepool_step_results_total{controller="machinepool",result="done",step="paused"} 0`,
		`machinist_machine_step_results_total{controller="machine",result="stopped",step="paused"} `,
		`controller_runtime_reconcile_total{controller="machine",result="success"} `,
	}
	missing := map[string]bool{}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		missing = missingFrom(ctx, "http://"+address+"/metrics", want)
		return len(missing) == 0, nil
	})
	require.NoError(t, err, "missing: %v", missing)
}

// missingFrom returns those beginnings of lines that a page does not have.
func missingFrom(ctx context.Context, url string, want []string) map[string]bool {
	missing := map[string]bool{}
	for _, line := range want {
		missing[line] = true
	}
	for line := range strings.Lines(page(ctx, url)) {
		maps.DeleteFunc(missing, func(begin string, _ bool) bool { return strings.HasPrefix(line, begin) })
	}
	return missing
}

// recordsTraces: an execution trace names the passes over a Machine that is changed meanwhile, and their steps.
func recordsTraces(ctx context.Context, t *testing.T, store *fake.Store, address string) {
	t.Helper()
	recorded, limit := make(chan string, 1), time.Now().Add(time.Minute)
	record := func() { recorded <- page(ctx, "http://"+address+"/debug/pprof/trace?seconds=2") }
	go record()
	for n := 0; ; n++ {
		select {
		case got := <-recorded:
			lacks := slices.DeleteFunc([]string{"reconcile Machine", "default/ours", machine.StepPaused}, func(text string) bool {
				return strings.Contains(got, text)
			})
			if len(lacks) == 0 {
				return
			}
			require.True(t, time.Now().Before(limit), "no trace has %q", lacks)
			go record() // on a busy machine a pass takes longer than a trace
		case <-time.After(50 * time.Millisecond):
			body := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/changed":"%d"}}}`, n)
			require.NoError(t, store.Client().Patch(ctx, fake.Machine("ours"), client.RawPatch(types.MergePatchType, body)))
		}
	}
}

// page returns what an address serves, "" if that fails.
func page(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
