package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/yaml"

	v1 "example.com/edge/v1"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	m.Run()
}

// rack is a world without a cluster: a store, the boxes' consoles, and the operator.
type rack struct {
	t        *testing.T
	store    *fake.Store
	client   client.Client
	consoles *consoles
}

func newRack(t *testing.T) *rack {
	t.Helper()
	scheme, err := newScheme()
	require.NoError(t, err)
	store := fake.NewStore(fake.Options{Scheme: scheme})
	r := &rack{t: t, store: store, client: store.Client(), consoles: &consoles{client: store.Client()}}
	for _, crd := range crdObjects(t) {
		require.NoError(t, r.client.Create(t.Context(), crd))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	settled := store.Start(ctx, fake.AllLoops())
	mgr, err := newManager(ctx, store.RESTConfig(), store.ManagerOptions(ctrl.Options{
		Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: new(true)},
	}), r.consoles)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		settled()
	})
	return r
}

// crdObjects are the CRDs of config/crds.yaml.
func crdObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(crds, "\n---\n") {
		crd := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &crd.Object))
		all = append(all, crd)
	}
	require.Len(t, all, 2)
	return all
}

// consoles play the boxes, and note what they are told.
type consoles struct {
	client client.Client

	mu sync.Mutex
	// broken is what they say in place of doing what they are told, and noHost has boxes never boot.
	broken error
	noHost bool
	// podsAtPowerOff are the pods that were on a box when it was switched off, nil before.
	podsAtPowerOff map[string]int
}

func (c *consoles) PowerOn(ctx context.Context, h v1.Hardware) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil || c.noHost {
		return c.broken
	}
	return simulation{c.client}.PowerOn(ctx, h)
}

func (c *consoles) PowerOff(ctx context.Context, h v1.Hardware) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods); err != nil {
		return err
	}
	if c.podsAtPowerOff == nil {
		c.podsAtPowerOff = map[string]int{}
	}
	c.podsAtPowerOff[h.Serial] = 0
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == h.Serial {
			c.podsAtPowerOff[h.Serial]++
		}
	}
	return nil
}

// set changes how consoles behave.
func (c *consoles) set(broken error, noHost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken, c.noHost = broken, noHost
}

// switchedOff returns how many pods there were when a box was switched off.
func (c *consoles) switchedOff(serial string) (pods int, off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pods, off = c.podsAtPowerOff[serial]
	return pods, off
}

func hardware(serial string) v1.Hardware {
	return v1.Hardware{Serial: serial, Console: "https://console-of-" + serial, Rack: "7"}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

func newServer(name string) *v1.EdgeServer {
	return &v1.EdgeServer{ObjectMeta: named(name), Spec: hardware(name)}
}

func newGateway(name string) *v1.EdgeGateway {
	return &v1.EdgeGateway{ObjectMeta: named(name), Spec: hardware(name)}
}

// load runs a pod on a box.
func (r *rack) load(host string) {
	r.t.Helper()
	require.NoError(r.t, r.client.Create(r.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "on-" + host},
		Spec:       corev1.PodSpec{NodeName: host, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}))
}

// change writes what do does to the newest box.
func (r *rack) change(box client.Object, do func()) {
	r.t.Helper()
	require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKeyFromObject(box), box))
	base, ok := box.DeepCopyObject().(client.Object)
	require.True(r.t, ok)
	do()
	require.NoError(r.t, r.client.Patch(r.t.Context(), box, client.MergeFrom(base)))
}

// comesTo waits until a box has a stage, and the condition Serving says why.
func (r *rack) comesTo(box client.Object, stage, reason, waiting string) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%s to be %s", box.GetName(), stage), func() string {
		require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKeyFromObject(box), box))
		return differs(box, stage, reason, waiting)
	})
}

// differs returns how a box differs from the wanted state, empty if it does not.
func differs(box client.Object, stage, reason, waiting string) string {
	_, report := box.(v1.Box).Parts() //nolint:forcetypeassert // every box is one
	text, says := "stage "+report.Stage, false
	for _, c := range report.Conditions {
		text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		says = says || c.Type == "Serving" && c.Reason == reason && c.Message == waiting
	}
	if report.Stage == stage && says {
		return ""
	}
	return text
}

// goes waits until an object is gone.
func (r *rack) goes(obj client.Object) {
	r.t.Helper()
	eventually(r.t, obj.GetName()+" to go", func() string {
		err := r.client.Get(r.t.Context(), client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return ""
		}
		require.NoError(r.t, err)
		return "it is still there"
	})
}

// eventually polls until check says nothing any more, and fails with what it said last.
func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s", what, last)
	}
}
