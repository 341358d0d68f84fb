package arm

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	// quiet is how long a manager must not write to be at rest. Cluster API reconciles an object once a second at most, and again after
	// some seconds when something failed.
	quiet     = 5 * time.Second
	restLimit = 5 * time.Minute
)

// Rest waits until a manager has written nothing for five seconds, and returns its requests since a mark. It fails after five minutes.
func (m *Manager) Rest(ctx context.Context, plane *cluster.ControlPlane, since cluster.AuditMark) (cluster.AuditEvents, error) {
	began := time.Now()
	for {
		events, err := plane.Audit().Since(since)
		if err != nil {
			return nil, err
		}
		own, last := events.From(m.Agent), began
		for _, e := range own.Writes().Where(measure.IsCounted) {
			if e.Received.After(last) {
				last = e.Received
			}
		}
		left := quiet - time.Since(last)
		if left <= 0 {
			return own, nil
		}
		if time.Since(began) > restLimit {
			return nil, fmt.Errorf("the manager still writes %s after all was done: %s", restLimit, own.Writes())
		}
		if err := measure.Sleep(ctx, left); err != nil {
			return nil, err
		}
	}
}
