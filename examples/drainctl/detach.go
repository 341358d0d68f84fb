package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// detachLook is how often volumes are looked at, in memory.
const detachLook = 250 * time.Millisecond

// detach waits until the volumes of the drained Nodes are detached.
func (s *session) detach(ctx context.Context, rules []drain.Rule, nodes []*corev1.Node, f *follower) error {
	cfg, _, err := runner.Standalone(s.config)
	if err != nil {
		return err
	}
	if err := watchVolumes(ctx, cfg.Informers); err != nil {
		return err
	}
	cfg.Volumes = true
	r, err := runner.New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop(nil)
	beside.Go(func() {
		if err := r.Start(ctx); err != nil {
			stop(err)
		}
	})
	began := s.now()
	for left := f.drained(nodes); len(left) > 0; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(detachLook):
		}
		left = attached(ctx, r, f, left, runner.VolumeRequest{Rules: rules, StartedAt: began})
	}
	return nil
}

// watchVolumes fails immediately if volumes cannot be watched: a Runner would retry, and a person waits here.
func watchVolumes(ctx context.Context, informers runner.Informers) error {
	for _, kind := range []client.Object{&storagev1.VolumeAttachment{}, &corev1.PersistentVolume{}} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("wait for volumes: %w", causeOf(ctx, err))
		}
	}
	return nil
}

// attached returns those Nodes whose volumes have to be waited for.
func attached(ctx context.Context, r *runner.Runner, f *follower, nodes []*corev1.Node, req runner.VolumeRequest) []*corev1.Node {
	var still []*corev1.Node
	for _, node := range nodes {
		req.Node = node
		result, err := r.StepVolumes(ctx, req)
		if ctx.Err() != nil {
			return nodes
		}
		if err != nil || !result.Done { // an error is retried: volumes that are not listed yet are unknown
			still = append(still, node)
		}
		f.volumes(node.Name, result, err)
	}
	return still
}
