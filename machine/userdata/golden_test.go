package userdata_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestDocumentsAreTheGoldenOnes(t *testing.T) {
	for _, name := range userdata.Names() {
		for _, c := range []userdata.Config{minimal(t, "v1.35.4"), everything(t, "v1.36.3", userdata.DualStack)} {
			doc, err := userdata.Render(builtin(t, name), c)
			require.NoError(t, err)
			golden(t, name+"_"+c.Version[:5]+".txt", unpacked(t, doc))
		}
	}
}

func TestFirstStagesAreTheGoldenOnes(t *testing.T) {
	for _, name := range []string{userdata.Ubuntu2404, userdata.Flatcar} {
		c := minimal(t, "v1.36.3")
		c.SSHKeys = []string{key}
		stages, err := userdata.RenderStages(builtin(t, name), c, worker7)
		require.NoError(t, err)
		golden(t, name+"_first_stage.txt", unpacked(t, stages.First))
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run go test ./machine/userdata -update")
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update and read the change):\n%s", file, diff)
	}
}

// unpacked is a document that people can read: what it is without the contents of its files, and then each file.
func unpacked(t *testing.T, doc userdata.Document) string {
	var tree map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(string(doc.Bytes()), "#cloud-config\n")), &tree))
	delete(tree, "write_files")
	delete(tree, "storage")
	if systemd, is := tree["systemd"].(map[string]any); is {
		for _, unit := range systemd["units"].([]any) {
			delete(unit.(map[string]any), "contents")
		}
	}
	rest, err := json.MarshalIndent(tree, "", "  ")
	require.NoError(t, err)
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n", doc.Format(), rest)
	files, err := userdata.Files(doc.Bytes())
	require.NoError(t, err)
	for _, f := range files {
		fmt.Fprintf(&out, "\n-- %s %04o --\n%s", f.Path, f.Mode, f.Content.Reveal())
	}
	return out.String()
}
