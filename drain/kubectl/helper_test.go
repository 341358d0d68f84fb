package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	kubectldrain "k8s.io/kubectl/pkg/drain"
)

// harmless are the fields whose zero value is what the kubectl command uses without flags, or that nothing reads.
func harmless() map[string]string {
	return map[string]string{
		"Force": "off", "IgnoreAllDaemonSets": "off", "DeleteEmptyDirData": "off", "DisableEviction": "off",
		"PodSelector": "all pods", "Selector": "read by the kubectl command only: it selects Nodes",
		"SkipWaitForDeleteTimeoutSeconds": "off", "AdditionalFilters": "none", "DryRunStrategy": "none",
		"OnPodDeletedOrEvicted":           "deprecated; OnFinished takes its place",
		"OnPodDeletionOrEvictionFinished": "there is no listener", "OnPodDeletionOrEvictionStarted": "there is no listener",
	}
}

func TestNewHelper_KnowsEveryFieldThatTheZeroValueMakesUnsafe(t *testing.T) {
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

// TestNewHelper_HandsEveryOptionOn sets all options and wants every field of Helper set, so that no option is forgotten.
func TestNewHelper_HandsEveryOptionOn(t *testing.T) {
	o := HelperOptions{
		Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, PodSelector: "app=web",
		AdditionalFilters: []kubectldrain.PodFilter{func(corev1.Pod) kubectldrain.PodDeleteStatus {
			return kubectldrain.MakePodDeleteStatusOkay()
		}},
		Timeout: time.Minute, GracePeriodSeconds: new(int32(3)), EvictErrorRetryDelay: time.Second, ChunkSize: 7,
		SkipWaitForDeleteTimeout: time.Minute, DryRunStrategy: cmdutil.DryRunServer, Out: io.Discard, ErrOut: io.Discard,
		OnStarted: func(*corev1.Pod, bool) {}, OnFinished: func(*corev1.Pod, bool, error) {},
	}
	value := reflect.ValueOf(o)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		if others := []string{"NoTimeout", "AllowImmediateKill", "DisableEviction"}; value.Field(i).IsZero() && !slices.Contains(others, name) {
			t.Errorf("this test has to set the option %s", name)
		}
	}
	h, err := NewHelper(t.Context(), fake.NewClientset(), o)
	require.NoError(t, err)
	got := []any{h.Force, h.IgnoreAllDaemonSets, h.DeleteEmptyDirData, h.PodSelector, len(h.AdditionalFilters), h.Timeout,
		h.GracePeriodSeconds, h.EvictErrorRetryDelay, h.ChunkSize, h.SkipWaitForDeleteTimeoutSeconds, h.DryRunStrategy}
	want := []any{true, true, true, "app=web", 1, time.Minute, 3, time.Second, int64(7), 60, cmdutil.DryRunServer}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	value = reflect.ValueOf(*h)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		if others := []string{"Selector", "DisableEviction", "OnPodDeletedOrEvicted"}; value.Field(i).IsZero() && !slices.Contains(others, name) {
			t.Errorf("%s was not set", name)
		}
	}

	h, err = NewHelper(t.Context(), fake.NewClientset(), HelperOptions{
		NoTimeout: true, DisableEviction: true, GracePeriodSeconds: new(int32(0)), AllowImmediateKill: true,
	})
	require.NoError(t, err)
	if h.Timeout != 0 || !h.DisableEviction || h.GracePeriodSeconds != 0 {
		t.Errorf("got %+v", h)
	}
}

func TestNewHelper_SaysWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		change func(*HelperOptions)
		want   string
	}{
		"no timeout":         {func(o *HelperOptions) { o.Timeout = 0 }, "a Timeout is required"},
		"a negative timeout": {func(o *HelperOptions) { o.Timeout = -1 }, "the Timeout must not be negative, got -1ns"},
		"a timeout and none": {func(o *HelperOptions) { o.NoTimeout = true }, "both Timeout 1m0s and NoTimeout are set"},
		"immediate kill":     {func(o *HelperOptions) { o.GracePeriodSeconds = new(int32(0)) }, "set AllowImmediateKill"},
		"a negative grace":   {func(o *HelperOptions) { o.GracePeriodSeconds = new(int32(-1)) }, "leave it nil for each pod's own"},
		"a delay without its unit": {func(o *HelperOptions) { o.EvictErrorRetryDelay = 5 },
			"EvictErrorRetryDelay 5ns would flood the API server"},
		"a negative delay": {func(o *HelperOptions) { o.EvictErrorRetryDelay = -time.Second }, "EvictErrorRetryDelay -1s would flood"},
		"a negative chunk": {func(o *HelperOptions) { o.ChunkSize = -1 }, "ChunkSize must not be negative, got -1"},
		"half a second of waiting": {func(o *HelperOptions) { o.SkipWaitForDeleteTimeout = time.Second / 2 },
			"must be whole seconds and not negative, got 500ms"},
		"a negative waiting": {func(o *HelperOptions) { o.SkipWaitForDeleteTimeout = -time.Second },
			"must be whole seconds and not negative, got -1s"},
		"a selector that is none": {func(o *HelperOptions) { o.PodSelector = "a in" }, "PodSelector: "},
		"a nil filter": {func(o *HelperOptions) { o.AdditionalFilters = make([]kubectldrain.PodFilter, 1) },
			"AdditionalFilters[0] is nil"},
		"a client dry run":   {func(o *HelperOptions) { o.DryRunStrategy = cmdutil.DryRunClient }, "the library would really evict"},
		"an unknown dry run": {func(o *HelperOptions) { o.DryRunStrategy = 17 }, "DryRunStrategy 17 is unknown"},
		"a server dry run of deletes": {func(o *HelperOptions) { o.DryRunStrategy, o.DisableEviction = cmdutil.DryRunServer, true },
			"waits for ever"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := HelperOptions{Timeout: time.Minute}
			tc.change(&o)
			h, err := NewHelper(t.Context(), fake.NewClientset(), o)
			require.ErrorContains(t, err, tc.want)
			require.Nil(t, h)
			require.NotContains(t, err.Error(), "\n", "one mistake, one line")
		})
	}
	var ctx context.Context
	var client kubernetes.Interface
	_, err := NewHelper(ctx, client, HelperOptions{ChunkSize: -1})
	require.ErrorContains(t, err, "ctx is required")
	require.ErrorContains(t, err, "client is required")
	require.ErrorContains(t, err, "a Timeout is required")
	require.ErrorContains(t, err, "ChunkSize must not be negative")
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

func TestNewHelper_WritersAndCallbacksAreNeverUsedAtTheSameTime(t *testing.T) {
	// A plain buffer and plain variables: the race detector and the counts are the judges.
	const pods = 40
	client, evicted := cluster(pods, willing)
	var out bytes.Buffer
	var started, finished []string
	h, err := NewHelper(t.Context(), client, HelperOptions{
		Timeout: time.Minute, Out: &out, ErrOut: &out,
		OnStarted:  func(pod *corev1.Pod, _ bool) { started = append(started, pod.Name) },
		OnFinished: func(pod *corev1.Pod, _ bool, _ error) { finished = append(finished, pod.Name) },
	})
	require.NoError(t, err)
	require.NoError(t, kubectldrain.RunNodeDrain(h, oracleNode))
	if evicted() != pods || len(started) != pods || len(finished) != pods {
		t.Errorf("want %d of all, got %d evicted, %d started, %d finished", pods, evicted(), len(started), len(finished))
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "evicting pod shop/web-") {
			t.Errorf("a mangled line: %q", line)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != pods {
		t.Errorf("want %d lines, got %d", pods, n)
	}
}

func TestNewHelper_ARefusedEvictionRestsBetweenAttempts(t *testing.T) {
	// With the zero value of EvictErrorRetryDelay kubectl would try some ten thousand times a second (Kubermatic's
	// KubeOne #4105).
	synctest.Test(t, func(t *testing.T) {
		client, _ := cluster(1, func(int) error { return apierrors.NewTooManyRequests("closed", 0) })
		var errOut bytes.Buffer
		h, err := NewHelper(t.Context(), client, HelperOptions{Timeout: 59 * time.Second, ErrOut: &errOut})
		require.NoError(t, err)
		require.ErrorContains(t, kubectldrain.RunNodeDrain(h, oracleNode), "global timeout reached")
		if n := strings.Count(errOut.String(), "(will retry after 5s)"); n != 12 {
			t.Errorf("want an attempt every 5 s for 59 s, got %d", n)
		}
	})
}

func TestHelper_EvictsUnderAClientDryRun(t *testing.T) {
	// The reason why NewHelper refuses it. When this fails, kubectl has learnt it and NewHelper may allow it.
	client, evicted := cluster(1, willing)
	h, err := NewHelper(t.Context(), client, HelperOptions{Timeout: time.Minute})
	require.NoError(t, err)
	h.DryRunStrategy = cmdutil.DryRunClient
	require.NoError(t, kubectldrain.RunNodeDrain(h, oracleNode))
	if evicted() != 1 {
		t.Error("no pod was evicted")
	}
}
