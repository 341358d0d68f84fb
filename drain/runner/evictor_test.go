package runner_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

var somePod = runner.PodRef{Namespace: "shop", Name: "web-0", UID: "uid-1"}

func wantEviction(grace *int64) *policyv1.Eviction {
	uid := types.UID("uid-1")
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &uid},
		},
	}
}

func TestRESTEvictor_AsksOnceAndHandsTheAnswerOver(t *testing.T) {
	var requests atomic.Int32
	var body policyv1.Eviction
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		path = req.Method + " " + req.URL.Path
		_ = json.NewDecoder(req.Body).Decode(&body)
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

	grace := int64(7)
	err = evictor.Evict(t.Context(), somePod, &grace)
	got := drain.Classify(err, true)
	want := drain.Outcome{
		Reason: drain.ReasonBudgetStale, RetryAfter: 10 * time.Second,
		Message: "cannot evict pod as it would violate the pod's disruption budget. " +
			"The disruption budget web is still being processed by the server.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if n := requests.Load(); n != 1 || path != "POST /api/v1/namespaces/shop/pods/web-0/eviction" {
		t.Errorf("want one POST to the pod's eviction, got %d to %s", n, path)
	}
	body.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(wantEviction(&grace), &body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestRESTDeleter_AsksOnceAndHandsTheAnswerOver(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	}))
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	err = runner.NewRESTEvictor(clientset).Delete(t.Context(), somePod, nil)
	require.Equal(t, drain.ReasonThrottled, drain.Classify(err, true).Reason)
	require.Equal(t, int32(1), requests.Load())
}
