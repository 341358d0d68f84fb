package runner_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

func TestRESTEvictor(t *testing.T) {
	var requests []string
	var body policyv1.Eviction
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if requests = append(requests, req.Method+" "+req.URL.Path); req.Method == http.MethodPost {
			_ = json.NewDecoder(req.Body).Decode(&body)
		}
		answer := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10).Status()
		answer.Details.Causes = append(answer.Details.Causes, metav1.StatusCause{
			Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web is still being processed by the server.",
		})
		answer.Kind, answer.APIVersion = "Status", "v1"
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	config.ContentType = runtime.ContentTypeJSON
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	evictor := runner.NewRESTEvictor(clientset)

	pod := runner.PodRef{Namespace: "shop", Name: "web-0", UID: "uid-1"}
	grace := int64(7)
	require.Equal(t, drain.Outcome{
		Reason: drain.ReasonBudgetStale, RetryAfter: 10 * time.Second,
		Message: "cannot evict pod as it would violate the pod's disruption budget. " +
			"The disruption budget web is still being processed by the server.",
	}, drain.Classify(evictor.Evict(t.Context(), pod, &grace), true))
	body.TypeMeta = metav1.TypeMeta{}
	require.Equal(t, policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}, body)
	require.Equal(t, drain.ReasonBudgetStale, drain.Classify(evictor.Delete(t.Context(), pod, nil), true).Reason)
	require.Equal(t, []string{"POST /api/v1/namespaces/shop/pods/web-0/eviction", "DELETE /api/v1/namespaces/shop/pods/web-0"}, requests,
		"client-go repeats none")
}

func TestEvictorOverStore(t *testing.T) {
	reasonOf := func(err error) drain.Reason { return drain.Classify(err, false).Reason }
	t.Run("spares a Pod of another UID, and shortens the grace", func(t *testing.T) {
		w := &world{t: t, store: fake.NewStore(fake.Options{})} // without loops: terminating Pods do not end
		w.client = w.store.Client()
		pod := bound("n0", "db-0")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(600))
		w.create(pod)
		get := func() *corev1.Pod {
			require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			return pod
		}
		before := drain.RefOf(pod)
		before.UID = "the-one-before"
		require.Equal(t, drain.ReasonGone, reasonOf(w.evictor().Delete(t.Context(), before, nil)))
		require.Equal(t, drain.ReasonGone, reasonOf(w.evictor().Evict(t.Context(), before, nil)))
		require.Nil(t, get().DeletionTimestamp)
		for _, grace := range []int64{60, 300} { // the second would be longer
			require.NoError(t, w.evictor().Delete(t.Context(), drain.RefOf(pod), &grace))
			require.Equal(t, int64(60), *get().DeletionGracePeriodSeconds)
		}
	})
	t.Run("finds a Pod gone", func(t *testing.T) {
		w := newWorld(t, "n1")
		pod := bound("n1", "db-0")
		w.create(pod)
		require.NoError(t, w.evictor().Evict(t.Context(), drain.RefOf(pod), nil))
		key := client.ObjectKeyFromObject(pod)
		poll(t, "the pod is gone", func() bool { return apierrors.IsNotFound(w.client.Get(t.Context(), key, pod)) })
		require.Equal(t, drain.ReasonGone, reasonOf(w.evictor().Evict(t.Context(), drain.RefOf(pod), nil)))
	})
	t.Run("two budgets over one Pod are a refusal and no success", func(t *testing.T) {
		w := newWorld(t, "n1")
		pod := bound("n1", "web-0")
		pod.Labels = web
		w.create(pod)
		pdb := w.budget(policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(0))}, 1)
		second := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second"}, Spec: pdb.Spec}
		w.create(second)
		require.Equal(t, drain.ReasonMultipleBudgets, reasonOf(w.evictor().Evict(t.Context(), drain.RefOf(pod), nil)))
	})
}
