package userdata_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestOnlyOurDocumentsAreRead(t *testing.T) {
	for _, text := range []string{"", "s3cr3t", "#cloud-config\nusers: [s3cr3t]\n", "#!/bin/sh\ns3cr3t", "\x1f\x8bs3cr3t",
		`{"ignition": {"version": "2.2.0"}}`,
		"#cloud-config\n" + `{"write_files": [{"path": "/a", "permissions": "s3cr3t"}]}`,
		"#cloud-config\n" + `{"write_files": [{"path": "/a", "permissions": "0600", "encoding": "b64", "content": "s3cr3t"}]}`,
		`{"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "/a", "contents": {"source": "data:,s3cr3t"}}]}}`} {
		_, err := userdata.Parse([]byte(text))
		require.EqualError(t, err, "the document is none that Render made")
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range userdata.Names() {
		doc, err := userdata.Render(builtin(f, name), minimal(f, "v1.36.3"))
		require.NoError(f, err)
		f.Add(doc.Bytes())
	}
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, document []byte) {
		joined, err := userdata.Parse(document)
		if err != nil && strings.Contains(err.Error(), token) || err == nil && joined.KubeletConfiguration == nil {
			t.Errorf("%v, %v", joined, err)
		}
	})
}
