package userdata

import "encoding/base64"

// ignitionVersion is the newest version that Flatcar's stable channel has supported since 2022.
const ignitionVersion = "3.3.0"

// These types are the part of Ignition's specification 3.3.0 that this package writes.
type ignitionConfig struct {
	Ignition struct {
		Version string `json:"version"`
	} `json:"ignition"`
	Passwd struct {
		Users []ignitionUser `json:"users,omitempty"`
	} `json:"passwd,omitzero"`
	Storage struct {
		Files []ignitionFile `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []unit `json:"units,omitempty"`
	} `json:"systemd"`
}

type ignitionUser struct {
	Name string   `json:"name"`
	Keys []string `json:"sshAuthorizedKeys"`
}

type ignitionFile struct {
	Path      string `json:"path"`
	Overwrite bool   `json:"overwrite"`
	Mode      int    `json:"mode"`
	Contents  struct {
		Source      string `json:"source"`
		Compression string `json:"compression,omitempty"`
	} `json:"contents"`
}

// unit is a systemd unit, used for other formats too.
type unit struct {
	Name     string `json:"name"`
	Enabled  bool   `json:"enabled,omitempty"`
	Mask     bool   `json:"mask,omitempty"`
	Contents string `json:"contents,omitempty"`
}

const dataURL = "data:;base64,"

// ignition renders a config. Contents are base64 in any case, so they are compressed if that makes them smaller: Ignition reads compressed
// documents only on few clouds, but compressed files on all of them.
func (b boot) ignition() (string, error) {
	var doc ignitionConfig
	doc.Ignition.Version, doc.Systemd.Units = ignitionVersion, b.units
	if len(b.keys) > 0 {
		doc.Passwd.Users = []ignitionUser{{Name: b.user, Keys: b.keys}}
	}
	for _, f := range b.files {
		made := ignitionFile{Path: f.Path, Overwrite: true, Mode: int(f.Mode.Perm())}
		content := []byte(f.Content.Reveal())
		if smaller := compressed(f.Content.Reveal()); len(smaller) < len(content) {
			content, made.Contents.Compression = smaller, "gzip"
		}
		made.Contents.Source = dataURL + base64.StdEncoding.EncodeToString(content)
		doc.Storage.Files = append(doc.Storage.Files, made)
	}
	return encode(doc, " ")
}
