package runner

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteOptions change how a pod is deleted. The zero value means the pod's own grace period.
type DeleteOptions struct {
	// GracePeriodSeconds replaces the pod's grace period when it is not nil. 0 removes the object at once.
	GracePeriodSeconds *int64
}

// Deleter deletes one pod, once, whatever budgets say. It obeys the same rules as an [Evictor]: it gives up when ctx ends,
// does not retry, refuses a pod with another UID and returns the API server's answer as it came. Without a Deleter a
// [Runner] cannot delete anything.
type Deleter interface {
	Delete(ctx context.Context, pod PodRef, opts DeleteOptions) error
}

// DeleterFunc adapts a function to [Deleter].
type DeleterFunc func(ctx context.Context, pod PodRef, opts DeleteOptions) error

// Delete calls f.
func (f DeleterFunc) Delete(ctx context.Context, pod PodRef, opts DeleteOptions) error {
	return f(ctx, pod, opts)
}

// NewRESTDeleter returns a Deleter over a clientset, with the client's hidden retries off, as [NewRESTEvictor].
func NewRESTDeleter(c kubernetes.Interface) (Deleter, error) {
	if c == nil {
		return nil, errors.New("new REST deleter: the clientset is nil")
	}
	core := c.CoreV1().RESTClient()
	if typed, ok := core.(*rest.RESTClient); core == nil || (ok && typed == nil) {
		return DeleterFunc(func(ctx context.Context, pod PodRef, opts DeleteOptions) error {
			return c.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *deletion(pod, opts))
		}), nil
	}
	return DeleterFunc(func(ctx context.Context, pod PodRef, opts DeleteOptions) error {
		return core.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
			MaxRetries(0).Body(deletion(pod, opts)).Do(ctx).Error()
	}), nil
}

// NewClientDeleter returns a Deleter over a controller-runtime client. Clients that talk to a real API server retry inside:
// prefer [NewRESTDeleter] there.
func NewClientDeleter(c client.Writer) (Deleter, error) {
	if c == nil {
		return nil, errors.New("new client deleter: the client is nil")
	}
	return DeleterFunc(func(ctx context.Context, pod PodRef, opts DeleteOptions) error {
		target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		return c.Delete(ctx, target, &client.DeleteOptions{
			GracePeriodSeconds: opts.GracePeriodSeconds, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
	}), nil
}

func deletion(pod PodRef, opts DeleteOptions) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{
		GracePeriodSeconds: opts.GracePeriodSeconds, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	}
}
