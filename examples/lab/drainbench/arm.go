package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	peer "github.com/machinist-dev/machinist/examples/lab/capi"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// drainer is one way to drain Nodes, ready to begin.
type drainer interface {
	// drain cordons and drains the Nodes and returns when it takes them for drained.
	drain(ctx context.Context, nodes []string) error
	// close ends what was started for it and waits for that.
	close()
}

// timekeeper is a drainer whose drain returns late, because it is seen from outside only.
type timekeeper interface {
	// ended says when it went on to what comes after the drain; zero if that is not to be found.
	ended(own cluster.AuditEvents) time.Time
}

// agentOf is the user agent, or its beginning, by which the audit log knows an arm in a scene.
func agentOf(a armName, scene string) string {
	if a == armCAPI {
		return peer.UserAgent
	}
	return "drainbench-" + scene
}

// startInProcess prepares an arm that runs in this process. config has no client limits.
func startInProcess(ctx context.Context, a armName, config *rest.Config) (drainer, error) {
	switch a {
	case armOurs:
		return startOurs(ctx, config)
	case armKubectl:
		return startKubectl(config)
	case armDefaults:
		config.QPS, config.Burst = 0, 0 // client-go's own
		return startKubectl(config)
	default:
		return nil, fmt.Errorf("the arm %s does not run in this process", a)
	}
}

// inTime calls f and gives up on it when ctx ends: kubectl's helper does not look at its context while it sleeps.
func inTime(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), ctx.Err())
	}
}
