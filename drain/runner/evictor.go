package runner

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/drain"
)

// PodRef identifies one Pod by namespace, name and UID.
type PodRef = drain.PodRef

// Evictor requests the eviction or deletion of one Pod, once. Its methods must return when ctx ends, must not retry, must fail for a Pod
// with another UID, and must return the API server's response unchanged, so that [drain.Classify] recognizes it. graceSeconds replaces the
// Pod's grace period when it is not nil, and is never 0. Implementations must be safe for concurrent use.
type Evictor interface {
	// Evict creates an Eviction, which respects budgets.
	Evict(ctx context.Context, pod PodRef, graceSeconds *int64) error
	// Delete deletes the Pod, regardless of budgets. A Runner calls it when a rule or a policy requires it.
	Delete(ctx context.Context, pod PodRef, graceSeconds *int64) error
}

type restEvictor struct{ core, policy rest.Interface }

// NewRESTEvictor returns an Evictor over a clientset, not a fake one. It disables the retries of the client: they would use a request in
// flight for up to ten responses with Retry-After.
func NewRESTEvictor(c kubernetes.Interface) Evictor {
	return restEvictor{c.CoreV1().RESTClient(), c.PolicyV1().RESTClient()}
}

// Evict implements [Evictor]. It calls Get and not Error: the API server refuses a Pod with two budgets with HTTP 201 and a Status of
// failure in the body.
func (e restEvictor) Evict(ctx context.Context, pod PodRef, graceSeconds *int64) error {
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: deletion(pod, graceSeconds),
	}
	_, err := e.policy.Post().AbsPath("/api/v1").Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		SubResource("eviction").MaxRetries(0).Body(eviction).Do(ctx).Get()
	return err
}

// Delete implements [Evictor].
func (e restEvictor) Delete(ctx context.Context, pod PodRef, graceSeconds *int64) error {
	return e.core.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).MaxRetries(0).Body(deletion(pod, graceSeconds)).
		Do(ctx).Error()
}

func deletion(pod PodRef, grace *int64) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
}
