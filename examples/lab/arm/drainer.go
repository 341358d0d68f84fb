package arm

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// The arms that drain Nodes in this process, beside Ours, which is a drain/runner here.
const (
	Kubectl = "kubectl" // kubectl's drain helper without client limits
	// KubectlDefaults has client-go's own limits, 5 requests a second: what the kubectl command does.
	KubectlDefaults = "kubectl-defaults"
)

// Drainer is one way to drain Nodes, ready to begin.
type Drainer interface {
	// Drain cordons and drains the Nodes and returns when it takes them for drained.
	Drain(ctx context.Context, nodes []string) error
	// Close ends what was started for it and waits for that.
	Close()
}

// Timekeeper is a Drainer whose Drain returns late, because it is seen from outside only.
type Timekeeper interface {
	// Ended returns when it went on to what comes after the drain; zero if that is not to be found.
	Ended(own cluster.AuditEvents) time.Time
}

// StartDrainer prepares an arm that runs in this process. config has no client limits.
func StartDrainer(ctx context.Context, name string, config *rest.Config) (Drainer, error) {
	switch name {
	case Ours:
		return startOurs(ctx, config)
	case KubectlDefaults:
		config.QPS, config.Burst = 0, 0 // client-go's own
		return startKubectl(config)
	case Kubectl:
		return startKubectl(config)
	}
	return nil, fmt.Errorf("the arm %s does not run in this process", name)
}
