package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func podOn(node, name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}, Spec: corev1.PodSpec{NodeName: node}}
}

func TestTheStoreOfANodeHoldsItsOwnPodsAndTellsOfEachChange(t *testing.T) {
	told := 0
	w := newNodeWatch("n")
	w.notify(func(node string) {
		require.Equal(t, "n", node)
		_, _, _ = w.snapshot() // the listener may look at once
		told++
	})
	has := func(tells int, synced bool, uids ...types.UID) {
		t.Helper()
		pods, isSynced, _ := w.snapshot()
		var got []types.UID
		for _, pod := range pods {
			got = append(got, pod.UID)
		}
		require.ElementsMatch(t, uids, got)
		require.Equal(t, synced, isSynced)
		require.Equal(t, tells, told)
	}
	require.NoError(t, w.Add(podOn("n", "a", "1")))
	has(1, false, "1")
	require.NoError(t, w.Replace([]any{podOn("n", "a", "1"), podOn("other", "b", "2")}, ""))
	has(2, true, "1")
	require.NoError(t, w.Update(podOn("other", "c", "3")))
	has(2, true, "1")
	require.NoError(t, w.Update(podOn("n", "a", "4")))
	has(3, true, "4")
	require.NoError(t, w.Delete(podOn("n", "a", "1")), "the one of this name that went before")
	require.NoError(t, w.Delete(podOn("n", "unknown", "9")))
	has(3, true, "4")
	w.reached()
	has(3, true, "4")
	w.failed(errors.New("lost"))
	has(4, false, "4")
	w.reached()
	has(5, true, "4")
	require.NoError(t, w.Delete(podOn("n", "a", "4")))
	has(6, true)
	for _, take := range []func(any) error{w.Add, w.Update, w.Delete, func(obj any) error { return w.Replace([]any{obj}, "") }} {
		require.Error(t, take(&corev1.Node{}))
	}
	has(6, true)
}

func TestASourceOfPodsEndsAfterItsWatches(t *testing.T) {
	opened, returned := make(chan struct{}, 1), make(chan struct{})
	open := func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
		opened <- struct{}{}
		<-ctx.Done()
		select {
		case <-returned:
			t.Error("Run has returned, and a watch goes on")
		case <-time.After(50 * time.Millisecond): // a Run that does not wait returns sooner
		}
		return nil, ctx.Err()
	}
	// in place of a watch that failed
	list := func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
		<-ctx.Done()
		return ctx.Err()
	}
	s, err := NewScopedPodSource(interceptor.NewClient(nil, interceptor.Funcs{Watch: open, List: list}))
	require.NoError(t, err)
	_, _, _ = s.Pods("n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(string) {}); close(returned) }()
	<-opened
	cancel()
	require.NoError(t, <-ended)
}

// informersByHand hand out informers that fail so many times, and whose events come from a test.
type informersByHand struct {
	cache.Informers

	fails    int
	handlers chan toolscache.ResourceEventHandler
}

type informerByHand struct {
	cache.Informer
	of *informersByHand
}

type listed struct {
	toolscache.ResourceEventHandlerRegistration
}

func (listed) HasSynced() bool { return true }

func (i *informersByHand) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	if i.fails > 0 {
		i.fails--
		return nil, errors.New("no such kind")
	}
	return informerByHand{of: i}, nil
}

func (i informerByHand) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.handlers <- h
	return listed{}, nil
}

func (informerByHand) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	return nil
}

func TestVolumesAreFollowedFromWhenTheServerKnowsThemAndThroughEachEvent(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	told := make(chan error, 10)
	informers := &informersByHand{fails: 1, handlers: make(chan toolscache.ResourceEventHandler, 2)}
	v := newCachedVolumes(informers)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var changed []string
	v.attachmentList.clock = clock
	v.attachmentList.changed = func() { _, err := v.attachmentList.ask(); told <- err }
	go func() { ended <- v.Run(ctx, func(node string) { changed = append(changed, node) }) }()
	require.ErrorContains(t, <-told, "no such kind")
	require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	clock.Step(time.Second)
	require.NoError(t, <-told, "nothing is wrong any more")
	attachments, volumes := <-informers.handlers, <-informers.handlers
	require.Eventually(t, func() bool { known, _ := v.volumeList.ask(); return known }, time.Minute, time.Millisecond)

	volume := func(claim string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: claim}}}
	}
	on := func(node string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{
			NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}}
	}
	of := func(claim string) int {
		found, err := v.VolumesOf(types.NamespacedName{Namespace: "default", Name: claim})
		require.NoError(t, err)
		return len(found)
	}
	attachments.OnAdd(on("n"), true)
	volumes.OnAdd(volume("old"), true)
	volumes.OnUpdate(volume("old"), volume("new"))
	require.Equal(t, []int{0, 1}, []int{of("old"), of("new")})
	attachments.OnUpdate(on("n"), on("m"))
	require.Len(t, v.AttachmentsOf("pv"), 1)
	left, synced := v.Attachments("n")
	require.True(t, synced)
	require.Empty(t, left)
	volumes.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: volume("new")})
	attachments.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: on("m")})
	attachments.OnAdd("no object", false)
	require.Equal(t, []int{0, 0}, []int{of("new"), len(v.AttachmentsOf("pv"))})
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, []string{"n", "n", "n", "m", "m", "m"}, changed)
	_, synced = v.Attachments("m")
	require.False(t, synced, "nothing is known after the end")
}
