package main

import (
	"bufio"
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
)

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
		`machinist_machine_pass_duration_seconds_count{controller="machine",result="done"} `,
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return missing
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return missing
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		maps.DeleteFunc(missing, func(line string, _ bool) bool { return strings.HasPrefix(lines.Text(), line) })
	}
	return missing
}
