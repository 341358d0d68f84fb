package kubectl

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	kubectldrain "k8s.io/kubectl/pkg/drain"
)

// What the kubectl command sets and the library leaves at zero.
const (
	defaultRetryDelay = 5 * time.Second
	minRetryDelay     = 100 * time.Millisecond
	defaultChunkSize  = 500
	podsOwnGrace      = -1
)

// HelperOptions configure [NewHelper]. Every zero value is what the kubectl command uses, apart from Timeout: there the
// caller has to choose.
type HelperOptions struct {
	// Force, IgnoreAllDaemonSets and DeleteEmptyDirData are kubectl's flags; see [drain.KubectlOptions].
	Force               bool
	IgnoreAllDaemonSets bool
	DeleteEmptyDirData  bool
	// PodSelector is a label selector in kubectl's notation; empty selects all pods.
	PodSelector string
	// AdditionalFilters are asked after kubectl's own.
	AdditionalFilters []kubectldrain.PodFilter

	// Timeout ends a drain that is not done; the pods stay as they are. It is required unless NoTimeout is set, because
	// Helper regards 0 as no limit.
	Timeout time.Duration
	// NoTimeout removes the limit; only the context ends the drain.
	NoTimeout bool
	// GracePeriodSeconds overrides the grace period of every pod; nil means each pod's own. 0 kills at once without
	// waiting for the kubelet, and is refused unless AllowImmediateKill is set.
	GracePeriodSeconds *int32
	AllowImmediateKill bool
	// EvictErrorRetryDelay is the rest after an eviction that a budget refused; 0 means 5 s. Under 100 ms is refused.
	EvictErrorRetryDelay time.Duration
	// ChunkSize is how many pods one list call returns; 0 means 500.
	ChunkSize int64
	// SkipWaitForDeleteTimeout leaves out pods that have been terminating for longer, in whole seconds; 0 means none.
	SkipWaitForDeleteTimeout time.Duration
	// DisableEviction deletes pods, which ignores budgets.
	DisableEviction bool
	// DryRunStrategy may be none (the zero value) or server. Client is refused: only the kubectl command knows it, the
	// library takes it for none and evicts.
	DryRunStrategy cmdutil.DryRunStrategy

	// Out and ErrOut get kubectl's lines; nil means nowhere. They are written to one line at a time, also when both are the
	// same, although kubectl writes from a goroutine per pod.
	Out, ErrOut io.Writer
	// OnStarted is called before each attempt to evict a pod, again after every refusal, and after each delete; OnFinished
	// when a pod is gone, or with the error when it could not be waited for. They are never called at the same time, and
	// must not block: other pods wait.
	OnStarted  func(pod *corev1.Pod, usingEviction bool)
	OnFinished func(pod *corev1.Pod, usingEviction bool, err error)
}

// NewHelper returns a Helper with safe values, or an error with all problems of o. A Helper that is built as a literal retries refused
// evictions without a pause since v0.35, kills Pods with a grace period of 0, panics when it prints, and does not end. ctx ends every call
// of the Helper; it keeps client and the functions and writers of o. The Helper may be changed afterwards.
//
// Set QPS and Burst of the client's rest.Config: client-go's 5 requests per second are soon used up by a poll per pod and
// second.
func NewHelper(ctx context.Context, client kubernetes.Interface, o HelperOptions) (*kubectldrain.Helper, error) {
	errs := o.problems()
	if ctx == nil {
		errs = append(errs, errors.New("ctx is required: nothing else stops a drain early"))
	}
	if client == nil {
		errs = append(errs, errors.New("client is required"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out, errOut := serialize(o.Out, o.ErrOut)
	started, finished := inTurn(o.OnStarted, o.OnFinished)
	h := &kubectldrain.Helper{
		Ctx:                 ctx,
		Client:              client,
		Force:               o.Force,
		IgnoreAllDaemonSets: o.IgnoreAllDaemonSets,
		DeleteEmptyDirData:  o.DeleteEmptyDirData,
		PodSelector:         o.PodSelector,
		AdditionalFilters:   o.AdditionalFilters,

		Timeout:                         o.Timeout,
		GracePeriodSeconds:              podsOwnGrace,
		EvictErrorRetryDelay:            orDefault(o.EvictErrorRetryDelay, defaultRetryDelay),
		ChunkSize:                       orDefault(o.ChunkSize, defaultChunkSize),
		SkipWaitForDeleteTimeoutSeconds: int(o.SkipWaitForDeleteTimeout / time.Second),
		DisableEviction:                 o.DisableEviction,
		DryRunStrategy:                  o.DryRunStrategy,

		Out:                             out,
		ErrOut:                          errOut,
		OnPodDeletionOrEvictionStarted:  started,
		OnPodDeletionOrEvictionFinished: finished,
	}
	if o.GracePeriodSeconds != nil {
		h.GracePeriodSeconds = int(*o.GracePeriodSeconds)
	}
	return h, nil
}

func orDefault[T comparable](v, unset T) T {
	var zero T
	if v == zero {
		return unset
	}
	return v
}

// line writes what one goroutine has to say before the next one may speak.
type line struct {
	mu *sync.Mutex
	w  io.Writer
}

// Write implements [io.Writer].
func (l line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// serialize guards both writers with one lock, because they may be the same.
func serialize(out, errOut io.Writer) (guardedOut, guardedErr io.Writer) {
	var mu sync.Mutex
	guard := func(w io.Writer) io.Writer {
		if w == nil {
			return io.Discard
		}
		return line{mu: &mu, w: w}
	}
	return guard(out), guard(errOut)
}

type (
	startedFunc  = func(*corev1.Pod, bool)
	finishedFunc = func(*corev1.Pod, bool, error)
)

// inTurn keeps callbacks apart. What was nil stays nil: kubectl looks at that.
func inTurn(started startedFunc, finished finishedFunc) (startedFunc, finishedFunc) {
	var mu sync.Mutex
	var oneStarted startedFunc
	var oneFinished finishedFunc
	if started != nil {
		oneStarted = func(pod *corev1.Pod, usingEviction bool) {
			mu.Lock()
			defer mu.Unlock()
			started(pod, usingEviction)
		}
	}
	if finished != nil {
		oneFinished = func(pod *corev1.Pod, usingEviction bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			finished(pod, usingEviction, err)
		}
	}
	return oneStarted, oneFinished
}
