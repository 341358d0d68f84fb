package userdata

import "fmt"

// Budget is the limit of a cloud for first-boot data. The documentation of some clouds, in 2026:
//
//   - AWS: 16 KiB, before base64
//   - Hetzner Cloud: 32 KiB of text
//   - OpenStack: 65535 bytes of base64, which hold 49149 bytes
//   - Azure: 65535 bytes, decoded
//   - DigitalOcean: 64 KiB of text
//   - Google Cloud: 256 KiB of text
type Budget struct {
	// Bytes is the maximum size.
	Bytes int
	// Binary: the cloud stores bytes unchanged, so gzip is possible. Otherwise the data must be text.
	Binary bool
}

// Fit returns the document unchanged if the cloud accepts it; otherwise in gzip, if it is for cloud-init and the cloud stores bytes;
// otherwise an error: use RenderStages, whose first document is always small. The files of an Ignition document are compressed already.
func (d Document) Fit(b Budget) (Document, error) {
	if d.Size() > b.Bytes && b.Binary && d.format == CloudConfig && !d.compressed {
		d.content, d.compressed = NewSecret(string(compressed(d.content.Reveal()))), true
	}
	if size := d.Size(); size > b.Bytes {
		return Document{}, fmt.Errorf("the first-boot data of %d bytes is over the limit of %d bytes: boot in two stages, or leave files to the "+
			"image", size, b.Bytes)
	}
	return d, nil
}
