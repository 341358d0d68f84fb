package runner

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
)

// What the tests of another package need of CachedVolumes.

func (v *CachedVolumes) Run(ctx context.Context, changed func(node string)) error {
	return v.run(ctx, changed)
}

func (v *CachedVolumes) Attachments(node string) ([]*storagev1.VolumeAttachment, bool) {
	found, synced, _ := v.attachmentsOn(node)
	return found, synced
}

func (v *CachedVolumes) AttachmentsOf(volume string) []*storagev1.VolumeAttachment {
	return find[*storagev1.VolumeAttachment](v.attachments, byVolume, volume)
}

func TrimVolumes(obj any) (any, error) {
	trimVolumes(obj)
	return obj, nil
}
