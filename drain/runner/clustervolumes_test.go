package runner_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

// clusterRunner starts the Runner of a cluster with a Node n1, to which the volume a is attached.
func clusterRunner(t *testing.T, mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)) (*fake.Store,
	func() runner.VolumesResult) {
	t.Helper()
	store := fake.NewStore(fake.Options{})
	node := fake.Node("n1", "p://1")
	for _, obj := range []client.Object{node, persistent("a"), attached("n1", "a")} {
		require.NoError(t, store.Client().Create(t.Context(), obj))
	}
	options := ctrl.Options{}
	if mapper != nil {
		options.MapperProvider = mapper
	}
	mgr, err := store.NewManager(options)
	require.NoError(t, err)
	drainer, err := runner.NewForCluster(mgr, nil)
	require.NoError(t, err)
	require.NoError(t, mgr.Add(drainer))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	var fresh corev1.Node
	require.NoError(t, store.Client().Get(t.Context(), client.ObjectKeyFromObject(node), &fresh))
	return store, func() runner.VolumesResult {
		result, err := drainer.StepVolumes(ctx, runner.Request{Node: &fresh}, 0)
		require.NoError(t, err)
		return result
	}
}

func TestPersistentVolumesThatCannotBeListedAreReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	store, step := clusterRunner(t, nil)
	mend := store.Inject(fake.Fault{
		Match: fake.Match("", schema.GroupKind{Kind: "PersistentVolume"}, ""), Times: -1,
		Err: apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "", nil),
	})
	var last runner.VolumesResult
	poll(t, "the answer is told", func() bool {
		last = step()
		require.False(t, last.Done)
		require.Empty(t, last.Attached)
		return strings.Contains(last.Message, "persistentvolumes is forbidden")
	})
	mend()
	poll(t, "the volume is named", func() bool {
		last = step()
		require.False(t, last.Done)
		return len(last.Attached) == 1
	})
	require.Equal(t, "* PersistentVolumeClaims: default/a", last.Message)
	require.NoError(t, store.Client().Delete(t.Context(), attached("n1", "a")))
	poll(t, "the volume is detached", func() bool { return step().Done })
}

// Nothing that could be seen there is attached, and a wait for it would never end.
func TestAClusterThatServesNoVolumeAttachmentsHasNothingAttached(t *testing.T) {
	t.Parallel()
	served := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Node", "Pod", "Namespace"} {
		scope := meta.RESTScopeRoot
		if kind == "Pod" {
			scope = meta.RESTScopeNamespace
		}
		served.Add(corev1.SchemeGroupVersion.WithKind(kind), scope)
	}
	store, step := clusterRunner(t, func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return served, nil })
	store.Inject(fake.Fault{
		Match: fake.Match("", schema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttachment"}, ""), Times: -1,
		Err: apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "", 0, true),
	})
	poll(t, "nothing is waited for", func() bool { return step().Done })
}
