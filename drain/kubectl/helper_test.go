package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	"github.com/machinist-dev/machinist/drain"
)

// harmless are the fields whose zero value is what the kubectl command uses without flags, or that nothing reads.
func harmless() map[string]string {
	return map[string]string{
		"Force": "off", "IgnoreAllDaemonSets": "off", "DeleteEmptyDirData": "off", "DisableEviction": "off",
		"PodSelector": "all pods", "Selector": "read by the kubectl command only: it selects Nodes",
		"SkipWaitForDeleteTimeoutSeconds": "off", "AdditionalFilters": "none", "DryRunStrategy": "none",
		"OnPodDeletedOrEvicted":           "deprecated",
		"OnPodDeletionOrEvictionFinished": "there is no listener", "OnPodDeletionOrEvictionStarted": "there is no listener",
	}
}

func TestHelperFields(t *testing.T) {
	h, err := NewHelper(t.Context(), fake.NewClientset(), HelperOptions{Timeout: time.Minute})
	require.NoError(t, err)
	want := map[string]any{
		"Ctx": t.Context(), "Client": h.Client, "GracePeriodSeconds": -1, "Timeout": time.Minute, "ChunkSize": int64(500),
		"EvictErrorRetryDelay": 5 * time.Second, "Out": io.Discard, "ErrOut": io.Discard,
	}
	zero := harmless()
	value := reflect.ValueOf(*h)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		expected, filled := want[name]
		_, mayBeZero := zero[name]
		switch {
		case filled && (value.Field(i).IsZero() || value.Field(i).Interface() != expected):
			t.Errorf("%s: want %v, got %v", name, expected, value.Field(i))
		case mayBeZero && !value.Field(i).IsZero():
			t.Errorf("%s: want the zero value, got %v", name, value.Field(i))
		case !filled && !mayBeZero:
			t.Errorf("this version of kubectl has a field Helper.%s: let NewHelper fill it, or say here why zero is harmless", name)
		}
		delete(want, name)
		delete(zero, name)
	}
	for name := range want {
		t.Errorf("Helper.%s is gone", name)
	}
	for name := range zero {
		t.Errorf("Helper.%s is gone", name)
	}
}

func TestHelperOptions(t *testing.T) {
	var out bytes.Buffer
	h, err := NewHelper(t.Context(), fake.NewClientset(), HelperOptions{Options: Options{
		KubectlOptions: drain.KubectlOptions{
			Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, SkipWaitForDeleteTimeout: 90 * time.Second,
			PodSelector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		},
		AdditionalFilters: []kubectldrain.PodFilter{func(corev1.Pod) kubectldrain.PodDeleteStatus {
			return kubectldrain.MakePodDeleteStatusSkip()
		}},
	}, Timeout: time.Minute, Out: &out})
	require.NoError(t, err)
	fmt.Fprintln(h.Out, "a")
	fmt.Fprintln(h.ErrOut, "b")
	got := []any{h.Force, h.IgnoreAllDaemonSets, h.DeleteEmptyDirData, h.Timeout, out.String(), h.PodSelector,
		h.SkipWaitForDeleteTimeoutSeconds, len(h.AdditionalFilters)}
	want := []any{true, true, true, time.Minute, "a\nb\n", "app=web", 90, 1}
	require.Equal(t, want, got)
}

func TestHelperErrors(t *testing.T) {
	for want, o := range map[string]HelperOptions{
		"a Timeout above 0 is required": {},
		"got -1ns":                      {Timeout: -1},
		"applies no Additional rules": {
			Timeout: time.Minute, Options: Options{KubectlOptions: drain.KubectlOptions{Additional: drain.DefaultRules()}},
		},
	} {
		h, err := NewHelper(t.Context(), fake.NewClientset(), o)
		require.ErrorContains(t, err, want)
		require.Nil(t, h)
		require.NotContains(t, err.Error(), "\n", "one mistake, one line")
	}
	var ctx context.Context
	var client kubernetes.Interface
	_, err := NewHelper(ctx, client, HelperOptions{})
	require.ErrorContains(t, err, "ctx is required")
	require.ErrorContains(t, err, "client is required")
	require.ErrorContains(t, err, "a Timeout above 0 is required")
}

// cluster is a fake API server with n pods on the Node that offers evictions; refuse answers each attempt.
func cluster(n int, refuse func(attempt int) error) (client *fake.Clientset, evicted func() int) {
	var objects []runtime.Object
	for i := range n {
		yes := true
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("web-%02d", i),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: &yes}},
			},
			Spec: corev1.PodSpec{NodeName: oracleNode},
		})
	}
	client = fake.NewClientset(objects...)
	client.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: kubectldrain.EvictionSubresource, Kind: kubectldrain.EvictionKind, Group: "policy", Version: "v1"},
	}}}
	attempts, done := 0, 0 // under the lock that the fake holds while it reacts
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		attempts++
		if err := refuse(attempts); err != nil {
			return true, nil, err
		}
		eviction, ok := create.GetObject().(*policyv1.Eviction)
		if !ok {
			return true, nil, errors.New("no eviction")
		}
		done++
		return true, nil, client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), eviction.Namespace, eviction.Name)
	})
	return client, func() int { return done }
}

func willing(int) error { return nil }

func TestHelperWriter(t *testing.T) {
	// A plain buffer: the race detector and the counts are the judges.
	const pods = 40
	client, evicted := cluster(pods, willing)
	var out bytes.Buffer
	h, err := NewHelper(t.Context(), client, HelperOptions{Timeout: time.Minute, Out: &out})
	require.NoError(t, err)
	require.NoError(t, kubectldrain.RunNodeDrain(h, oracleNode))
	require.Equal(t, pods, evicted())
	for line := range strings.Lines(out.String()) {
		require.True(t, strings.HasPrefix(line, "evicting pod shop/web-"), "a mangled line: %q", line)
	}
	require.Equal(t, pods, strings.Count(out.String(), "\n"))
}

func TestHelperRests(t *testing.T) {
	// With the zero value of EvictErrorRetryDelay kubectl would try some ten thousand times a second (Kubermatic's
	// KubeOne #4105).
	synctest.Test(t, func(t *testing.T) {
		client, _ := cluster(1, func(int) error { return apierrors.NewTooManyRequests("closed", 0) })
		var errOut bytes.Buffer
		h, err := NewHelper(t.Context(), client, HelperOptions{Timeout: 59 * time.Second, Out: &errOut})
		require.NoError(t, err)
		require.ErrorContains(t, kubectldrain.RunNodeDrain(h, oracleNode), "global timeout reached")
		require.Equal(t, 12, strings.Count(errOut.String(), "(will retry after 5s)"), "every 5 s for 59 s")
	})
}
