package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/examples/lab/capi"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// comparison measures on one control plane.
type comparison struct {
	options

	say       bench.Say
	built     arms.Programs
	plane     *cluster.ControlPlane
	client    client.Client // for the preparation of fleets; no arm uses it
	clientset kubernetes.Interface
	lives     *recorder
}

// measure runs all selected measurements on its own control plane. It returns the results, even with an error. A failed
// run does not end it.
func (c *comparison) measure(ctx context.Context) (runs []measured, err error) {
	dir, err := os.MkdirTemp("", "machinebench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if c.built, err = arms.Build(ctx, c.arms, dir, c.say); err != nil {
		return nil, err
	}
	o := cluster.Options{KeepDir: c.keep, ExtraArgs: map[cluster.Component][]string{
		cluster.APIServer: {"--delete-collection-workers=4"}, // for the pods, which are not measured
	}}
	err = bench.OnControlPlane(ctx, c.say, o, func(ctx context.Context, plane *cluster.ControlPlane) error {
		c.plane = plane
		if err := c.connect(ctx); err != nil {
			return err
		}
		return c.withProvider(ctx, func(ctx context.Context) error {
			var err error
			runs, err = c.all(ctx)
			return err
		})
	})
	return runs, err
}

func (c *comparison) connect(ctx context.Context) error {
	config := c.config("machinebench")
	var err error
	if c.clientset, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.client, err = client.New(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	c.lives = newRecorder(time.Now)
	return (&capi.Objects{Client: c.client, Plane: c.plane, Cluster: clusterName}).Install(ctx)
}

func (c *comparison) config(agent string) *rest.Config {
	config := c.plane.Config()
	config.UserAgent = agent
	return config
}

// withProvider runs the contract provider and calls f with a context that also ends with the provider.
func (c *comparison) withProvider(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended, err := startProvider(ctx, c.config(""), c.lives)
	if err != nil {
		cancel(nil)
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := <-ended; ctx.Err() == nil {
			cancel(fmt.Errorf("the provider has ended: %w", err))
		}
	}()
	err = f(ctx)
	cancel(nil)
	<-done
	return err
}

// all measures every arm with all limits in every round, until ctx ends. The arms alternate, so that other load of the
// computer affects both.
func (c *comparison) all(ctx context.Context) (runs []measured, err error) {
	for round := range c.rounds {
		for _, l := range c.limits {
			for _, a := range bench.InTurn(c.arms, round) {
				m := c.one(ctx, a, l, round)
				if ctx.Err() != nil {
					return runs, context.Cause(ctx)
				}
				runs = append(runs, m)
			}
		}
	}
	return runs, nil
}

// one measures one fleet and prints the result.
func (c *comparison) one(ctx context.Context, a armName, l limitName, round int) measured {
	m := measured{Arm: a, Limits: l, Round: round + 1}
	c.say("%s, limits %s, round %d of %d: setting up %d Machines", a, l, m.Round, c.rounds, c.machines)
	f := &fleet{
		name: fmt.Sprintf("%s-%s-%d", a, l, m.Round), machines: c.machines, client: c.client, lives: c.lives, say: c.say,
	}
	defer f.cleanUp(ctx)
	figures, err := c.lead(ctx, f, a, l)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.Error = err.Error()
		c.say("%s, limits %s: failed: %v", a, l, err)
	default:
		m.Figures = figures
		c.say("%s, limits %s: %s", a, l, figures)
	}
	return m
}

// lead creates a fleet and lets a manager reconcile it from creation to deletion.
func (c *comparison) lead(ctx context.Context, f *fleet, a armName, l limitName) (*figures, error) {
	if err := f.prepare(ctx); err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	mark, err := c.plane.Audit().Mark()
	if err != nil {
		return nil, err
	}
	m, err := arms.Start(ctx, c.built, a, c.plane, l.flags(a)...)
	if err != nil {
		return nil, err
	}
	defer m.Stop()
	var counted *figures
	err = m.While(ctx, func(ctx context.Context) error {
		if _, err := m.Rest(ctx, c.plane, mark); err != nil {
			return err
		}
		t := &trial{comparison: c, fleet: f, manager: m, extras: l == c.limits[0]}
		var err error
		counted, err = t.figures(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return counted, f.nothingLeft(ctx)
}
