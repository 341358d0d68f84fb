package runner

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// PodRef names one incarnation of a pod.
type PodRef = drain.PodRef

// EvictOptions change how a pod is evicted. The zero value means the pod's own grace period.
type EvictOptions struct {
	// GracePeriodSeconds replaces the pod's grace period when it is not nil.
	GracePeriodSeconds *int64
}

// Evictor asks for the eviction of one pod, once. It must give up when ctx ends, must not retry by itself, must refuse a
// pod with another UID, and returns the API server's answer as it came, so that [drain.Classify] understands it.
// Implementations are safe for concurrent use.
type Evictor interface {
	Evict(ctx context.Context, pod PodRef, opts EvictOptions) error
}

// EvictorFunc adapts a function to [Evictor].
type EvictorFunc func(ctx context.Context, pod PodRef, opts EvictOptions) error

// Evict calls f.
func (f EvictorFunc) Evict(ctx context.Context, pod PodRef, opts EvictOptions) error {
	return f(ctx, pod, opts)
}

// NewRESTEvictor returns an Evictor that posts policy/v1 evictions through a clientset, with the client's hidden retries
// off: they would hold a slot for up to ten answers that carry Retry-After. Fake clientsets, which have no REST client,
// are served through their typed method.
func NewRESTEvictor(c kubernetes.Interface) (Evictor, error) {
	if c == nil {
		return nil, errors.New("new REST evictor: the clientset is nil")
	}
	post := c.PolicyV1().RESTClient()
	if typed, ok := post.(*rest.RESTClient); post == nil || (ok && typed == nil) {
		return EvictorFunc(func(ctx context.Context, pod PodRef, opts EvictOptions) error {
			return c.PolicyV1().Evictions(pod.Namespace).Evict(ctx, eviction(pod, opts))
		}), nil
	}
	return EvictorFunc(func(ctx context.Context, pod PodRef, opts EvictOptions) error {
		// Get and not Error: two budgets over one pod are refused with HTTP 201 and a Status of failure in the body.
		_, err := post.Post().AbsPath("/api/v1").Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
			SubResource("eviction").MaxRetries(0).Body(eviction(pod, opts)).Do(ctx).Get()
		return err
	}), nil
}

// NewClientEvictor returns an Evictor over a controller-runtime client. Clients that talk to a real API server retry
// inside: prefer [NewRESTEvictor] there.
func NewClientEvictor(c client.Client) (Evictor, error) {
	if c == nil {
		return nil, errors.New("new client evictor: the client is nil")
	}
	return EvictorFunc(func(ctx context.Context, pod PodRef, opts EvictOptions) error {
		target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		return c.SubResource("eviction").Create(ctx, target, eviction(pod, opts))
	}), nil
}

func eviction(pod PodRef, opts EvictOptions) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: opts.GracePeriodSeconds,
			Preconditions:      &metav1.Preconditions{UID: &pod.UID},
		},
	}
}
