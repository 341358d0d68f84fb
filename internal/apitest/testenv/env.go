package testenv

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/fake"
)

// T is the part of testing.TB that an Env uses.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Env is a running Store with a client for the test itself. Its methods fail the test of Start, and are called from the goroutine of the
// test.
type Env struct {
	T      T
	Store  *fake.Store
	Client client.WithWatch
}

// silence is called once: tests that run in parallel must not set the logger at the same time.
var silence = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) }) //nolint:gochecknoglobals // the logger is one of the process

// Start starts a Store with its controllers until the test ends, and silences what logs without a logger of its own. before, which may be
// nil, is called while nothing runs yet.
func Start(t T, options fake.Options, loops fake.Loops, before func(*Env)) *Env {
	t.Helper()
	e := Over(t, fake.NewStore(options))
	if before != nil {
		before(e)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // ends in Cleanup, after the test's own context
	settled := e.Store.Start(ctx, loops)
	t.Cleanup(func() {
		cancel()
		settled()
	})
	return e
}

// Over returns the Env of a Store that the caller starts, and silences what logs without a logger of its own.
func Over(t T, store *fake.Store) *Env {
	silence()
	return &Env{T: t, Store: store, Client: store.Client()}
}

// Manager returns a manager over the Store that sends its requests with a user agent. Its controllers run four workers, and may have the
// names of those in other managers. Without a logger it logs nothing. Of options.Controller only UsePriorityQueue is used.
func (e *Env) Manager(agent string, options ctrl.Options) ctrl.Manager {
	e.T.Helper()
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	options.Controller = config.Controller{
		SkipNameValidation: new(true), MaxConcurrentReconciles: 4, UsePriorityQueue: options.Controller.UsePriorityQueue,
	}
	rest := e.Store.RESTConfig()
	rest.UserAgent = agent
	mgr, err := ctrl.NewManager(rest, e.Store.ManagerOptions(options))
	if err != nil {
		e.T.Fatalf("make the manager %s: %v", agent, err)
	}
	return mgr
}

// Run runs a manager until the test ends, or until it is stopped, and fails the test when the manager fails.
func (e *Env) Run(mgr ctrl.Manager) (stop func()) {
	e.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.T.Context())) // ends in Cleanup, after the test's own context
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.T.Errorf("manager: %v", err)
		}
	})
	e.T.Cleanup(stop)
	return stop
}
