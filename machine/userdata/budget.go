package userdata

import "fmt"

// Budget is the limit of one cloud for first-boot data.
type Budget struct {
	// Cloud is the name of the cloud, for messages.
	Cloud string
	// Bytes is the maximum size.
	Bytes int
	// Binary: the cloud stores bytes unchanged, so gzip is possible. Otherwise the data must be text.
	Binary bool
}

// BudgetOf returns the Budget of a cloud by its name: AWS, Hetzner Cloud, OpenStack, Azure, DigitalOcean or Google Cloud.
func BudgetOf(cloud string) (Budget, bool) {
	budget, known := map[string]Budget{
		// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html: in raw form, before base64
		"AWS": {Bytes: 16 << 10, Binary: true},
		// https://docs.hetzner.cloud/reference/cloud#servers-create-a-server
		"Hetzner Cloud": {Bytes: 32 << 10},
		// https://docs.openstack.org/nova/latest/user/metadata.html: the field user_data is base64 of at most 65535 bytes
		"OpenStack": {Bytes: 65535 / 4 * 3, Binary: true},
		// https://learn.microsoft.com/azure/virtual-machines/custom-data: the decoded array
		"Azure": {Bytes: 65535, Binary: true},
		// https://docs.digitalocean.com/reference/api: 64 KiB of text
		"DigitalOcean": {Bytes: 64 << 10},
		// https://cloud.google.com/compute/docs/metadata/setting-custom-metadata#limitations: one value, which is text
		"Google Cloud": {Bytes: 256 << 10},
	}[cloud]
	budget.Cloud = cloud
	return budget, known
}

// Fit returns the document unchanged if the cloud accepts it; otherwise in gzip, if it is for cloud-init and the cloud stores bytes;
// otherwise an error: use RenderStages, whose first document is always small. The files of an Ignition document are compressed already.
func (d Document) Fit(b Budget) (Document, error) {
	if d.Size() > b.Bytes && b.Binary && d.format == CloudConfig && !d.compressed {
		d.content, d.compressed = NewSecret(string(compressed(d.content.Reveal()))), true
	}
	if size := d.Size(); size > b.Bytes {
		return Document{}, fmt.Errorf("the first-boot data of %d bytes is over the limit of %s, %d bytes: boot in two stages, or leave files "+
			"to the image", size, b.Cloud, b.Bytes)
	}
	return d, nil
}
