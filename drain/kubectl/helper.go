package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	kubectldrain "k8s.io/kubectl/pkg/drain"
)

// Values that the kubectl command sets and the library does not.
const (
	retryDelay   = 5 * time.Second
	chunkSize    = 500
	podsOwnGrace = -1
)

// HelperOptions configure [NewHelper]. Every zero value is the default of the kubectl command, except for Timeout, which is required. Other
// fields of the Helper may be set afterwards.
type HelperOptions struct {
	// Options are those of [Rules], so that both use the same options. A Helper has a clock, reads DaemonSets, and evicts their finished Pods
	// itself; it cannot apply rules, so Additional must be empty.
	Options

	// Timeout ends a drain that is not done; the pods are not changed. It is required, because Helper treats 0 as no limit.
	Timeout time.Duration

	// Out gets kubectl's output, including errors; nil discards it. Lines are written one at a time, although kubectl writes from a goroutine
	// per pod.
	Out io.Writer
}

// NewHelper returns a Helper with safe values, or an error with all problems of o. A Helper that is built as a literal retries refused
// evictions without a pause since v0.35, kills Pods with a grace period of 0, panics when it prints, and does not end. ctx ends every call
// of the Helper, which retains client and the writer of o. The Helper may be changed afterwards.
//
// Set QPS and Burst of the client's rest.Config: a poll per pod and second soon exceeds client-go's default of 5 requests per second.
func NewHelper(ctx context.Context, client kubernetes.Interface, o HelperOptions) (*kubectldrain.Helper, error) {
	var errs []error
	if o.Timeout <= 0 {
		errs = append(errs,
			fmt.Errorf("a Timeout above 0 is required: without one a drain behind a closed budget never ends; got %s", o.Timeout))
	}
	if len(o.Additional) > 0 {
		errs = append(errs, errors.New("a Helper applies no Additional rules: pass them as AdditionalFilters"))
	}
	if ctx == nil {
		errs = append(errs, errors.New("ctx is required: nothing else stops a drain early"))
	}
	if client == nil {
		errs = append(errs, errors.New("client is required"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	selector := ""
	if o.PodSelector != nil {
		selector = o.PodSelector.String()
	}
	out := serialize(o.Out)
	return &kubectldrain.Helper{
		Ctx:                 ctx,
		Client:              client,
		Force:               o.Force,
		IgnoreAllDaemonSets: o.IgnoreAllDaemonSets,
		DeleteEmptyDirData:  o.DeleteEmptyDirData,
		PodSelector:         selector,
		AdditionalFilters:   o.AdditionalFilters,

		SkipWaitForDeleteTimeoutSeconds: int(o.SkipWaitForDeleteTimeout.Seconds()),

		Timeout:              o.Timeout,
		GracePeriodSeconds:   podsOwnGrace,
		EvictErrorRetryDelay: retryDelay,
		ChunkSize:            chunkSize,

		Out:    out,
		ErrOut: out,
	}, nil
}

// lines writes one line at a time.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func serialize(out io.Writer) io.Writer {
	if out == nil {
		return io.Discard
	}
	return &lines{w: out}
}
