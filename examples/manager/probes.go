package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// readiness is the state of /readyz: true after the caches were filled once. It does not become false again, because a
// kind that is no longer served affects only the Machines that reference it.
type readiness struct {
	cache cache.Cache
	log   logr.Logger
	done  atomic.Bool
}

var errNotRead = errors.New("the cluster has not been read yet")

func addProbes(mgr ctrl.Manager, log logr.Logger) error {
	ready := &readiness{cache: mgr.GetCache(), log: log}
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", ready.check),
		mgr.Add(ready),
	)
}

// Start waits for the caches. It implements the manager's Runnable.
func (r *readiness) Start(ctx context.Context) error {
	if r.cache.WaitForCacheSync(ctx) {
		r.done.Store(true)
		r.log.Info("ready")
	}
	return nil
}

// NeedLeaderElection is false: a replica that is not the leader is ready too.
func (r *readiness) NeedLeaderElection() bool { return false }

func (r *readiness) check(*http.Request) error {
	if !r.done.Load() {
		return errNotRead
	}
	return nil
}
