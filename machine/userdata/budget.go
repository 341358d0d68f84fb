package userdata

import (
	"encoding/base64"
	"fmt"
)

// Budget is how much first-boot data one cloud takes.
type Budget struct {
	// Cloud is its name, for messages.
	Cloud string
	// Bytes is the largest size that is accepted.
	Bytes int
	// Encoded says that the limit is that of the data in base64.
	Encoded bool
	// Binary says that bytes are kept as they are, so that gzip is possible. Without it only text is.
	Binary bool
}

// Budgets returns what clouds say about their limits, the smallest first.
func Budgets() []Budget {
	return []Budget{
		// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html: in raw form, before base64
		{Cloud: "AWS", Bytes: 16 << 10, Binary: true},
		// https://docs.hetzner.cloud/reference/cloud#servers-create-a-server
		{Cloud: "Hetzner Cloud", Bytes: 32 << 10},
		// https://docs.openstack.org/nova/latest/user/metadata.html: the field user_data is base64
		{Cloud: "OpenStack", Bytes: 65535, Encoded: true, Binary: true},
		// https://learn.microsoft.com/azure/virtual-machines/custom-data: the decoded array
		{Cloud: "Azure", Bytes: 65535, Binary: true},
		// https://docs.digitalocean.com/reference/api: 64 KiB of text
		{Cloud: "DigitalOcean", Bytes: 64 << 10},
		// https://cloud.google.com/compute/docs/metadata/setting-custom-metadata#limitations: one value, which is text
		{Cloud: "Google Cloud", Bytes: 256 << 10},
	}
}

// BudgetOf returns the Budget of a cloud of Budgets by its name.
func BudgetOf(cloud string) (Budget, bool) {
	for _, b := range Budgets() {
		if b.Cloud == cloud {
			return b, true
		}
	}
	return Budget{}, false
}

// SizeError says that a document is too large for a cloud. Two stages (RenderStages) always have a small first document.
type SizeError struct {
	// Budget is the limit, Size is how much there would be of it.
	Budget Budget
	Size   int
}

func (e *SizeError) Error() string {
	form := ""
	if e.Budget.Encoded {
		form = " in base64"
	}
	return fmt.Sprintf("the first-boot data of %d bytes%s is over the limit of %s, %d bytes: boot in two stages, or leave files to the image",
		e.Size, form, e.Budget.Cloud, e.Budget.Bytes)
}

// Fit returns the document as it is if the cloud takes it; otherwise in gzip, if it is for cloud-init and the cloud keeps bytes; otherwise
// a *SizeError. The files of an Ignition document are compressed already.
func (d Document) Fit(b Budget) (Document, error) {
	err := b.check(d)
	if err == nil {
		return d, nil
	}
	if d.format != CloudConfig || !b.Binary || d.compressed {
		return Document{}, err
	}
	d.content, d.compressed = NewSecret(string(compressed(d.content.Reveal()))), true
	if err := b.check(d); err != nil {
		return Document{}, err
	}
	return d, nil
}

func (b Budget) check(d Document) error {
	size := d.Size()
	if b.Encoded {
		size = base64.StdEncoding.EncodedLen(size)
	}
	if size > b.Bytes {
		return &SizeError{Budget: b, Size: size}
	}
	return nil
}
