package runner

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lazyVolumes are volumes that are not listed before a caller asks for them. Safe for concurrent use.
type lazyVolumes struct {
	informers Informers
	wanted    *firstCall

	mu      sync.Mutex
	current *CachedVolumes      // nil while nothing runs
	err     error               // why a kind cannot be watched
	none    bool                // the server does not serve VolumeAttachments
	asked   map[string]struct{} // Nodes that were asked about before everything was known
}

var _ VolumeSource = (*lazyVolumes)(nil)

func newLazyVolumes(informers Informers) *lazyVolumes {
	return &lazyVolumes{informers: informers, wanted: newFirstCall(), asked: map[string]struct{}{}}
}

// Attachments implements VolumeSource. They are not synced before the PersistentVolumes of what is attached are: who knows the ones
// and not the others cannot decide. A server that says that it does not serve VolumeAttachments has none: nothing that could be seen here
// is attached, and waiting for it would never end.
func (l *lazyVolumes) Attachments(node string) ([]*storagev1.VolumeAttachment, bool) {
	l.wanted.done()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.none {
		return nil, true
	}
	if l.current != nil {
		attachments, synced := l.current.Attachments(node)
		if synced && (len(attachments) == 0 || l.volumesKnownLocked()) {
			return attachments, true
		}
	}
	l.asked[node] = struct{}{}
	return nil, false
}

func (l *lazyVolumes) volumesKnownLocked() bool {
	_, err := l.current.Volume("")
	return err == nil
}

func (l *lazyVolumes) attachmentsKnown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return false
	}
	_, synced := l.current.Attachments("")
	return synced
}

func (l *lazyVolumes) volumesKnown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current != nil && l.volumesKnownLocked()
}

// unread returns the kind that is waited for, and why it cannot be watched if that is known.
func (l *lazyVolumes) unread() (client.Object, error) {
	attachments := l.attachmentsKnown()
	l.mu.Lock()
	defer l.mu.Unlock()
	if attachments {
		return &corev1.PersistentVolume{}, l.err
	}
	return &storagev1.VolumeAttachment{}, l.err
}

// AttachmentsOf implements VolumeSource.
func (l *lazyVolumes) AttachmentsOf(volume string) []*storagev1.VolumeAttachment {
	if current := l.running(); current != nil {
		return current.AttachmentsOf(volume)
	}
	return nil
}

// Volume implements drain.VolumeLookup.
func (l *lazyVolumes) Volume(name string) (*corev1.PersistentVolume, error) {
	if current := l.running(); current != nil {
		return current.Volume(name)
	}
	return nil, errVolumesUnread
}

// VolumesOf implements drain.VolumeLookup.
func (l *lazyVolumes) VolumesOf(claim types.NamespacedName) ([]*corev1.PersistentVolume, error) {
	if current := l.running(); current != nil {
		return current.VolumesOf(claim)
	}
	return nil, errVolumesUnread
}

func (l *lazyVolumes) running() *CachedVolumes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// Run implements VolumeSource. A server that cannot be asked which kinds it serves is asked again.
func (l *lazyVolumes) Run(ctx context.Context, changed func(node, volume string)) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.wanted.C:
	}
	untilDone(ctx, func(ctx context.Context) error { return l.serve(ctx, changed) })
	return nil
}

func (l *lazyVolumes) serve(ctx context.Context, changed func(node, volume string)) error {
	_, err := l.informers.GetInformer(ctx, &storagev1.VolumeAttachment{}, cache.BlockUntilSynced(false))
	l.learn(err, meta.IsNoMatchError(err))
	if err != nil {
		l.wake(changed)
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	current, err := NewCachedVolumes(l.informers)
	if err != nil {
		return err
	}
	l.set(current)
	defer l.set(nil)
	beside.Go(func() {
		for _, known := range []toolscache.InformerSynced{l.attachmentsKnown, l.volumesKnown} {
			if toolscache.WaitForCacheSync(ctx.Done(), known) {
				l.wake(changed)
			}
		}
	})
	beside.Go(func() { // current asks again by itself, and does not say what was answered
		untilDone(ctx, func(ctx context.Context) error {
			_, err := l.informers.GetInformer(ctx, &corev1.PersistentVolume{}, cache.BlockUntilSynced(false))
			l.learn(err, false)
			return err
		})
	})
	return current.Run(ctx, changed)
}

func (l *lazyVolumes) learn(err error, none bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.none = err, none
}

// wake tells of the Nodes that a caller waits for.
func (l *lazyVolumes) wake(changed func(node, volume string)) {
	for node := range l.takeAsked() {
		changed(node, "")
	}
}

func (l *lazyVolumes) set(current *CachedVolumes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = current
}

// takeAsked returns the Nodes that a caller waits for: where nothing is attached, no event tells of it.
func (l *lazyVolumes) takeAsked() map[string]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = map[string]struct{}{}
	return asked
}

// untilDone calls serve until it succeeds or ctx ends, with longer and longer pauses while it fails.
func untilDone(ctx context.Context, serve func(context.Context) error) {
	pauses := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second}
	_ = pauses.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) { // fails only when ctx ends
		return serve(ctx) == nil, nil
	})
}
