package runner

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// What the tests of another package need.

type CachedVolumes = cachedVolumes

func NewCachedVolumes(of informers) *CachedVolumes { return newCachedVolumes(of) }

func (v *cachedVolumes) Run(ctx context.Context, changed func(node string)) error {
	return v.run(ctx, changed)
}

func (v *cachedVolumes) Attachments(node string) ([]*storagev1.VolumeAttachment, bool) {
	found, synced, _ := v.attachmentsOn(node)
	return found, synced
}

func (v *cachedVolumes) AttachmentsOf(volume string) []*storagev1.VolumeAttachment {
	return find[*storagev1.VolumeAttachment](v.attachments, byVolume, volume)
}

func TrimVolumes(obj any) (any, error) {
	trimVolumes(obj)
	return obj, nil
}

const (
	ProbeInterval        = probeInterval
	MaxInFlightPerBudget = maxInFlightPerBudget
)

var (
	ErrStopped      = errStopped
	ErrNodeReplaced = errNodeReplaced
)

// SetWorkers limits the requests in flight.
func (r *Runner) SetWorkers(n int) { r.limit, r.workers = n, n }

// SetBackoff shortens the pauses after failures of a source of NewScopedPodSource.
func SetBackoff(of PodSource, least, most time.Duration) {
	s := of.(*scopedPodSource)
	s.minBackoff, s.maxBackoff = least, most
}

// Breaks lets what runs beside the Runner fail.
func (c Config) Breaks(err error) Config {
	c.beside = func(context.Context) error { return err }
	return c
}
