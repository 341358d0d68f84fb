package runner

import (
	"context"
	"errors"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/drain"
)

// PodRef identifies one Pod by namespace, name and UID.
type PodRef = drain.PodRef

// EvictOptions change how a Pod is evicted. The zero value means the Pod's own grace period.
type EvictOptions struct {
	// GracePeriodSeconds replaces the Pod's grace period when it is not nil.
	GracePeriodSeconds *int64
}

// Evictor requests the eviction of one Pod, once. It must return when ctx ends, must not retry, must refuse a Pod with another UID, and
// must return the API server's answer unchanged, so that [drain.Classify] recognizes it. Implementations are safe for concurrent use.
type Evictor interface {
	Evict(ctx context.Context, pod PodRef, opts EvictOptions) error
}

// EvictorFunc adapts a function to [Evictor].
type EvictorFunc func(ctx context.Context, pod PodRef, opts EvictOptions) error

// Evict calls f.
func (f EvictorFunc) Evict(ctx context.Context, pod PodRef, opts EvictOptions) error {
	return f(ctx, pod, opts)
}

// DeleteOptions change how a Pod is deleted. The zero value means the Pod's own grace period.
type DeleteOptions struct {
	// GracePeriodSeconds replaces the Pod's grace period when it is not nil. 0 removes the object immediately.
	GracePeriodSeconds *int64
}

// Deleter deletes one Pod, once, regardless of budgets. It obeys the same rules as an [Evictor]. Without a Deleter a [Runner] cannot delete
// Pods.
type Deleter interface {
	Delete(ctx context.Context, pod PodRef, opts DeleteOptions) error
}

// DeleterFunc adapts a function to [Deleter].
type DeleterFunc func(ctx context.Context, pod PodRef, opts DeleteOptions) error

// Delete calls f.
func (f DeleterFunc) Delete(ctx context.Context, pod PodRef, opts DeleteOptions) error {
	return f(ctx, pod, opts)
}

// NewRESTEvictor returns an Evictor that creates policy/v1 Evictions through a clientset. It turns the retries of the client off: they
// would occupy a place for up to ten answers that carry Retry-After. Fake clientsets have no REST client; their typed method is called.
func NewRESTEvictor(c kubernetes.Interface) (Evictor, error) {
	if c == nil {
		return nil, errors.New("new REST evictor: the clientset is nil")
	}
	post := c.PolicyV1().RESTClient()
	return EvictorFunc(func(ctx context.Context, pod PodRef, opts EvictOptions) error {
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: deletion(pod, opts.GracePeriodSeconds),
		}
		if isFake(post) {
			return c.PolicyV1().Evictions(pod.Namespace).Evict(ctx, eviction)
		}
		// Get and not Error: the API server refuses a Pod with two budgets by HTTP 201 with a Status of failure in the body.
		_, err := post.Post().AbsPath("/api/v1").Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
			SubResource("eviction").MaxRetries(0).Body(eviction).Do(ctx).Get()
		return err
	}), nil
}

// NewRESTDeleter returns a Deleter over a clientset, with the retries of the client turned off like [NewRESTEvictor].
func NewRESTDeleter(c kubernetes.Interface) (Deleter, error) {
	if c == nil {
		return nil, errors.New("new REST deleter: the clientset is nil")
	}
	core := c.CoreV1().RESTClient()
	return DeleterFunc(func(ctx context.Context, pod PodRef, opts DeleteOptions) error {
		body := deletion(pod, opts.GracePeriodSeconds)
		if isFake(core) {
			return c.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *body)
		}
		return core.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).MaxRetries(0).Body(body).Do(ctx).Error()
	}), nil
}

func deletion(pod PodRef, grace *int64) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
}

// isFake recognizes the REST client of a fake clientset, which is nil.
func isFake(c rest.Interface) bool {
	typed, ok := c.(*rest.RESTClient)
	return c == nil || ok && typed == nil
}
