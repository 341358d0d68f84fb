package runner_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

func TestDeployment(t *testing.T) {
	c := newCluster(t, ctrl.Options{}, "n1", "n2", "n3")
	c.deploy(8, 2)
	before := c.on("n1") + c.on("n2")
	c.store.ResetRequests()
	c.drain("n1")
	c.drain("n2")
	for _, node := range []string{"n1", "n2"} {
		c.drained(node)
		require.Zero(t, c.on(node))
	}
	require.Zero(t, c.store.CountRequests(fake.Match("delete", schema.GroupKind{Kind: "Pod"}, "")), "the server asks no budget")
	evicted := map[string]int{}
	for _, r := range c.store.Requests() {
		if isAccepted(r) {
			evicted[r.Name]++
		}
	}
	accepted := c.store.CountRequests(isAccepted)
	require.Len(t, evicted, accepted, "one accepted request per pod")
	require.GreaterOrEqual(t, accepted, before, "a pod that takes one's place may come to n2 before its cordon")
	cordons := c.store.CountRequests(fake.Match("patch", schema.GroupKind{Kind: "Node"}, ""))
	require.GreaterOrEqual(t, cordons, 4, "one cordon per Node, and one annotation of the test")
	require.LessOrEqual(t, cordons, 10, "a Node is cordoned again only until it is shown cordoned")
	require.Zero(t, c.store.CountRequests(fake.Match("get", schema.GroupKind{Kind: "Pod"}, "")), "no pod is read one by one")
	refused := c.store.CountRequests(func(r fake.Request) bool { return isEviction(r) && r.Code == 429 })
	require.LessOrEqual(t, refused, accepted, "refused requests must stay few")
}

func TestHopelessBudget(t *testing.T) {
	c := newCluster(t, ctrl.Options{}, "n1", "n2")
	pdb := c.deploy(2, 0)
	c.drain("n1")
	poll(t, "the budget is named", func() bool {
		r, _ := c.last("n1")
		return len(r.Blockers) == 1 && r.Blockers[0].Reason == drain.ReasonBudgetNeverAllows
	})
	r, _ := c.last("n1")
	require.Equal(t, []types.NamespacedName{client.ObjectKeyFromObject(pdb)}, r.Blockers[0].Budgets)
	require.False(t, r.Blockers[0].Since.IsZero())
	require.False(t, r.Done)
	poll(t, "each pod was asked for", func() bool { return c.store.CountRequests(isEviction) == r.Blockers[0].Count })
	c.patch(pdb, `{"spec":{"maxUnavailable":1}}`) // which wakes the drain
	c.drained("n1")
}

func ofPods(verbs ...string) func(fake.Request) bool {
	return func(r fake.Request) bool { return slices.Contains(verbs, r.Verb) && r.GVK.Kind == "Pod" }
}

// The second watch confirms the end of the drain.
func TestPodReads(t *testing.T) {
	for name, tc := range map[string]struct {
		streams        bool
		lists, watches int
	}{"a server that streams lists": {true, 0, 2}, "one that does not": {false, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, ctrl.Options{}, "n1")
			if !tc.streams { // it refuses the first watch as servers do that do not know sendInitialEvents
				c.store.FailNext(ofPods("watch"), apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
			}
			c.deploy(2, 2)
			c.store.ResetRequests()
			c.drain("n1")
			c.drained("n1")
			count := func(verb string) int {
				return c.store.CountRequests(func(r fake.Request) bool { return ofPods(verb)(r) && r.Code < 300 })
			}
			require.Equal(t, []int{tc.lists, tc.watches}, []int{count("list"), count("watch")})
		})
	}
}

func TestForbiddenList(t *testing.T) {
	c := newCluster(t, ctrl.Options{}, "n1")
	mend := c.store.Inject(fake.Fault{
		Match: ofPods("list", "watch"), Times: -1,
		Err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no access")),
	})
	c.drain("n1")
	poll(t, "the failure is reported", func() bool { _, err := c.last("n1"); return apierrors.IsForbidden(err) })
	r, _ := c.last("n1")
	require.False(t, r.Done)
	mend()
	c.drained("n1")
}

func TestLostAnswers(t *testing.T) {
	c := newCluster(t, ctrl.Options{}, "n1", "n2")
	c.deploy(6, 3)
	for range 2 {
		c.store.LoseNext(isEviction)
	}
	c.store.FailNext(isEviction, apierrors.NewGenericServerResponse(429, "POST", schema.GroupResource{Resource: "pods"}, "", "busy", 1, true))
	c.store.FailNext(ofPods("watch"), errors.New("connection refused"))
	c.drain("n1")
	c.drained("n1")
	require.Zero(t, c.on("n1"))
}

// attachVolume attaches the volume a to a Node.
func (w *world) attachVolume(node string) *storagev1.VolumeAttachment {
	w.t.Helper()
	name := "a"
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a-on-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disk.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
		},
	}
	w.create(attachment, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name},
			},
		},
	})
	return attachment
}

// The whole stage: the drain is done, the volumes cannot be listed, one is being detached, its attachment goes, the owner wakes.
func TestVolumes(t *testing.T) {
	c := newCluster(t, ctrl.Options{}, "n1")
	attachment := c.attachVolume("n1")
	mend := c.store.Inject(fake.Fault{
		Match: fake.Match("", schema.GroupKind{Kind: "PersistentVolume"}, ""), Times: -1,
		Err: apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "", nil),
	})
	c.drain("n1")
	poll(t, "the refusal is reported", func() bool {
		got := c.volumes("n1")
		require.False(t, got.Done)
		require.Empty(t, got.Attached)
		return strings.Contains(got.Message, "persistentvolumes is forbidden")
	})
	mend()
	poll(t, "the volume is named", func() bool {
		got := c.volumes("n1")
		require.False(t, got.Done)
		return len(got.Attached) == 1
	})
	got := c.volumes("n1")
	require.Equal(t, "* PersistentVolumeClaims: default/a", got.Message)
	require.Equal(t, 15*time.Second, got.RequeueAfter)
	began := time.Now()
	require.NoError(t, c.client.Delete(t.Context(), attachment))
	poll(t, "the volume is detached", func() bool { return c.volumes("n1").Done })
	require.Less(t, time.Since(began), got.RequeueAfter, "the owner was woken")
}

// Nothing that could be seen there is attached, and a wait for it would never end.
func TestUnservedAttachments(t *testing.T) {
	served := meta.NewDefaultRESTMapper(nil)
	served.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	served.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	served.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper := func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return served, nil }
	c := newCluster(t, ctrl.Options{MapperProvider: mapper}, "n1")
	c.store.Inject(fake.Fault{
		Match: fake.Match("", schema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttachment"}, ""), Times: -1,
		Err: apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "", 0, true),
	})
	c.drain("n1")
	poll(t, "nothing is waited for", func() bool { return c.volumes("n1").Done })
}

func TestPodSource(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	require.NoError(t, c.Create(t.Context(), bound("n1", "a")))
	require.NoError(t, c.Create(t.Context(), bound("n2", "b")))
	source := runner.NewPodSource(c)
	pods, synced, err := source.Pods("n1")
	require.NoError(t, err)
	require.False(t, synced, "nothing is known before Run")
	require.Empty(t, pods)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var changes atomic.Int32
	go func() { ended <- source.Run(ctx, func(string) { changes.Add(1) }) }()
	names := func(node string) []string {
		pods, synced, err := source.Pods(node)
		if err != nil || !synced {
			return nil
		}
		out := []string{}
		for _, pod := range pods {
			out = append(out, pod.Name)
		}
		return out
	}
	poll(t, "the Node's pods are known", func() bool { return len(names("n1")) == 1 })
	require.Equal(t, []string{"a"}, names("n1"))

	require.NoError(t, c.Create(t.Context(), bound("n1", "late")))
	poll(t, "a new pod is seen", func() bool { return len(names("n1")) == 2 })

	// A watch that cannot be opened again makes the source lose touch, and say why.
	podKind := schema.GroupKind{Kind: "Pod"}
	mend := store.Inject(fake.Fault{Match: fake.Match("", podKind, ""), Err: errors.New("connection refused"), Times: -1})
	source.Release("n1")
	poll(t, "the failure is reported", func() bool {
		_, synced, err := source.Pods("n1")
		return !synced && err != nil
	})
	mend()
	poll(t, "the source recovers", func() bool { return len(names("n1")) == 2 })

	source.Release("n1")
	source.Release("n1")
	seen := changes.Load()
	require.NoError(t, c.Create(t.Context(), bound("n1", "unseen")))
	require.NoError(t, c.Create(t.Context(), bound("n2", "seen")))
	poll(t, "another Node is known", func() bool { return len(names("n2")) == 2 })
	require.LessOrEqual(t, changes.Load()-seen, int32(2), "a released Node makes no changes")

	cancel()
	require.NoError(t, <-ended)
	_, synced, _ = source.Pods("n2")
	require.False(t, synced, "nothing is known after the end")
}
