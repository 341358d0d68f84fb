package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/fake"
)

var widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func eventually(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, check)
	require.NoError(t, err, "waiting for %s", what)
}

func TestARealManagerReconcilesAgainstTheStore(t *testing.T) {
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: widget, Status: true}}})
	mgr, err := store.NewManager(ctrl.Options{Controller: config.Controller{SkipNameValidation: new(true)}})
	require.NoError(t, err)
	recorder := mgr.GetEventRecorder("widgets")
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(widget)
	require.NoError(t, ctrl.NewControllerManagedBy(mgr).Named("widgets").For(object).Owns(&corev1.ConfigMap{}).
		Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			w := &unstructured.Unstructured{}
			w.SetGroupVersionKind(widget)
			if err := mgr.GetClient().Get(ctx, req.NamespacedName, w); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: req.Name, Namespace: req.Namespace, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w, widget)},
			}}
			if err := mgr.GetClient().Create(ctx, cm); err != nil && !apierrors.IsAlreadyExists(err) {
				return reconcile.Result{}, err
			}
			recorder.Eventf(w, nil, "Normal", "Made", "Make", "made %s", cm.Name)
			return reconcile.Result{}, nil
		})))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	require.NoError(t, mgr.Add(store.Runnable(fake.AllLoops())))
	go func() { done <- mgr.Start(ctx) }()

	c := store.Client()
	w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	w.SetGroupVersionKind(widget)
	w.SetName("one")
	w.SetNamespace("default")
	require.NoError(t, c.Create(ctx, w))
	key := client.ObjectKeyFromObject(w)
	eventually(t, "the config map", func(ctx context.Context) (bool, error) {
		err := mgr.GetAPIReader().Get(ctx, key, &corev1.ConfigMap{})
		return err == nil, client.IgnoreNotFound(err)
	})
	eventually(t, "the event, in both groups", func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		var core corev1.EventList
		if err := c.List(ctx, &list); err != nil || len(list.Items) == 0 {
			return false, err
		}
		if err := c.List(ctx, &core); err != nil {
			return false, err
		}
		return list.Items[0].Note == "made one" && core.Items[0].Message == "made one" && core.Items[0].InvolvedObject.Name == "one", nil
	})
	require.NoError(t, c.Delete(ctx, w))
	eventually(t, "the garbage collector", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, key, &corev1.ConfigMap{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	cancel()
	require.NoError(t, <-done)
}

// gear is a type that only a test's own scheme has.
type gear struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (g *gear) DeepCopyObject() runtime.Object {
	out := &gear{TypeMeta: g.TypeMeta}
	g.DeepCopyInto(&out.ObjectMeta)
	return out
}

func TestTheClientAndManagersHaveTheSchemeOfTheStore(t *testing.T) {
	kind, scheme := widget.GroupVersion().WithKind("Gear"), runtime.NewScheme()
	scheme.AddKnownTypeWithName(kind, &gear{})
	metav1.AddToGroupVersion(scheme, kind.GroupVersion())
	store := fake.NewStore(fake.Options{Scheme: scheme, Kinds: []fake.ServedKind{{GVK: kind}}})
	made := &gear{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}}
	require.NoError(t, store.Client().Create(t.Context(), made))
	mgr, err := store.NewManager(ctrl.Options{})
	require.NoError(t, err)
	require.NoError(t, mgr.GetAPIReader().Get(t.Context(), client.ObjectKeyFromObject(made), &gear{}))

	other, err := store.NewManager(ctrl.Options{Scheme: runtime.NewScheme()})
	require.NoError(t, err)
	require.False(t, other.GetScheme().Recognizes(kind), "a manager may have its own")
	require.True(t, runtime.IsNotRegisteredError(store.Client().Create(t.Context(), configMap("unknown"))))
}

func TestAClientsetRunsAWholeDeployment(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	finished := store.Start(ctx, fake.AllLoops())
	set, err := kubernetes.NewForConfig(store.RESTConfig())
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err = set.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	eventually(t, "untainted nodes", func(ctx context.Context) (bool, error) {
		nodes, err := set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && len(nodes.Items[0].Spec.Taints)+len(nodes.Items[1].Spec.Taints) == 0, err
	})
	labels := map[string]string{"app": "web"}
	_, err = set.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](4), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "four available replicas", func(ctx context.Context) (bool, error) {
		d, err := set.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 4, err
	})
	pods, err := set.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=a"})
	require.NoError(t, err)
	require.Len(t, pods.Items, 2)
	cancel()
	finished()
}

// Whatever connects to a cluster requests this first.
func TestAStoreIsReady(t *testing.T) {
	clientset, err := kubernetes.NewForConfig(fake.NewStore(fake.Options{}).RESTConfig())
	require.NoError(t, err)
	body, err := clientset.RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ok", string(body))
}
