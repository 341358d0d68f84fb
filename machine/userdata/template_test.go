package userdata_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// hostile are values that end up elsewhere if one layer of quoting is missing.
func hostile() []string {
	return []string{
		"", " ", "plain", "two words", `"`, `'`, `\`, `\"`, `\'`, "`id`", "$HOME", "$(id)", "${x:-y}", "a;b", "a&b", "a|b", "#no comment",
		"%h %%", "!x", "*",
		`'; touch /tmp/x; '`, `" }, "x": {"`, "{{ .Cluster.Token }}", "{% raw %}", "~", "- a", "a: b", "]]>", "\\n", "EOF", "ünïcödé 🐧",
		"\u2028", "<&>",
	}
}

// controls are values that some files cannot hold.
func controls() []string {
	return []string{"a\nb", "a\r\nb", "\t", "\x00", "\x1b[2J", "\x7f", "\nEOF\nreboot\n"}
}

// own returns a system with one file, whose template prints a parameter.
func own(t *testing.T, source, text string) (userdata.System, error) {
	t.Helper()
	manifest := fmt.Sprintf(`{"name": "own", "format": "cloud-config", "versions": ["v1.36"],
		"files": [{"path": "/own", "mode": "0644", "source": %q}]}`, source)
	return userdata.Load(fstest.MapFS{"own.json": {Data: []byte(manifest)}, source: {Data: []byte(text)}}, "own.json")
}

// rendered returns the file of own with a value.
func rendered(t *testing.T, system userdata.System, value string) (string, error) {
	t.Helper()
	c := minimal(t, "v1.36.3")
	c.Parameters = map[string]userdata.Secret{"value": userdata.NewSecret(value)}
	doc, err := userdata.Render(system, c)
	if err != nil {
		return "", err
	}
	files, err := userdata.Files(doc.Bytes())
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0].Content.Reveal(), nil
}

func TestAnyValueStaysOneValueInJSON(t *testing.T) {
	system, err := own(t, "own.json.json", `{"a": {{ .Parameters.value }}, "b": [{{ .Parameters.value }}]}`)
	require.NoError(t, err)
	for _, value := range append(hostile(), controls()...) {
		text, err := rendered(t, system, value)
		require.NoError(t, err)
		var got any
		require.NoError(t, json.Unmarshal([]byte(text), &got), "%q", value)
		require.Empty(t, cmp.Diff(map[string]any{"a": value, "b": []any{value}}, got), value)
	}
}

func TestAnyValueStaysOneValueInAnEnvironmentFile(t *testing.T) {
	system, err := own(t, "own.env", "VALUE={{ .Parameters.value }}\nAFTER={{ .Version }}\n")
	require.NoError(t, err)
	for _, value := range hostile() {
		text, err := rendered(t, system, value)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "own.env")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `. "$1" && printf '%s|%s' "$VALUE" "$AFTER"`, "sh", file).Output()
		require.NoError(t, err, "%q", value)
		require.Empty(t, cmp.Diff(value+"|v1.36.3", string(out)), "a shell reads")
		require.Empty(t, cmp.Diff(value, systemdReads(t, text)), "systemd reads")
	}
	for _, value := range controls() {
		_, err := rendered(t, system, "s3cr3t"+value)
		require.ErrorContains(t, err, "/own: ")
		require.ErrorContains(t, err, "the value has characters that this file cannot hold")
		require.NotContains(t, err.Error(), "s3cr3t")
	}
}

// systemdReads reads the first assignment as systemd does: in double quotes, a backslash takes the meaning of " \ $ and ` away.
func systemdReads(t *testing.T, text string) string {
	t.Helper()
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "VALUE=\""), "\n")
	var value strings.Builder
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '"':
			require.Equal(t, len(line)-1, i, "the value ends before the line does: %s", text)
		case line[i] == '\\' && strings.IndexByte("\"\\`$", line[i+1]) >= 0:
			i++
			value.WriteByte(line[i])
		default:
			value.WriteByte(line[i])
		}
	}
	return value.String()
}

func TestAnyValueStaysOneValueInTOML(t *testing.T) {
	system, err := own(t, "own.toml", "value = {{ .Parameters.value }}\n")
	require.NoError(t, err)
	for _, value := range append(hostile(), controls()...) {
		text, err := rendered(t, system, value)
		require.NoError(t, err)
		line, found := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "value = ")
		require.True(t, found)
		require.NotContains(t, line, "\x7f", "TOML allows no such character")
		var got string
		require.NoError(t, json.Unmarshal([]byte(line), &got), "%q: the escapes of a basic string are those of JSON", value)
		require.Equal(t, value, got)
	}
}

func TestAFileWithoutQuotesHoldsOnlyWhatMeansTheSameEverywhere(t *testing.T) {
	for _, source := range []string{"own.conf", "own.service"} {
		system, err := own(t, source, "Value={{ .Parameters.value }}\n")
		require.NoError(t, err)
		for _, value := range []string{"", "plain", "eth0", "2001:db8::7/64", "https://example.com:443/a_b-c,d=e@f+g"} {
			text, err := rendered(t, system, value)
			require.NoError(t, err)
			require.Equal(t, "Value="+value+"\n", text)
		}
		for _, value := range append(hostile()[3:], controls()...) {
			if value == "a;b" || value == "EOF" {
				continue // plain; a semicolon separates the values of a list, and begins a comment only at the beginning of a line
			}
			_, err := rendered(t, system, value)
			require.ErrorContains(t, err, "the value has characters that this file cannot hold", "%q", value)
		}
	}
}

func TestAScriptHasNoValues(t *testing.T) {
	const script = "#!/bin/bash\ndocker inspect --format '{{ .Version }}' # none of ours\n"
	system, err := own(t, "own.sh", script)
	require.NoError(t, err)
	text, err := rendered(t, system, "$(reboot)")
	require.NoError(t, err)
	require.Equal(t, script, text)
}

func TestAPEMFileHasOnlyItsBlocks(t *testing.T) {
	system, err := own(t, "own.pem", "{{ .Parameters.value }}")
	require.NoError(t, err)
	text, err := rendered(t, system, "$(reboot)\n"+ca(t)+"more")
	require.NoError(t, err)
	require.Equal(t, ca(t), text)
}

func TestValuesAreQuotedWhereverATemplatePrintsThem(t *testing.T) {
	system, err := own(t, "own.env", `{{ define "one" }}{{ . }}{{ end -}}
{{ $x := .Parameters.value -}}
A={{ $x }}
{{ if .HasIPv4 }}B={{ printf "%s-%s" .Version "$x" }}{{ else }}B={{ .Minor }}{{ end }}
{{ with .Minor }}C={{ . }}{{ end }}
{{ range $i, $taint := .Taints }}D={{ $taint.Key }}{{ inc $i }}{{ end }}
E={{ .HasIPv6 }}
F={{ template "one" .Minor }}
`)
	require.NoError(t, err)
	text, err := rendered(t, system, "$x")
	require.NoError(t, err)
	want := "A=\"\\$x\"\nB=\"v1.36.3-\\$x\"\nC=\"v1.36\"\nD=\"node.cluster.x-k8s.io/uninitialized\"\"1\"\nE=\"false\"\nF=\"v1.36\"\n"
	require.Empty(t, cmp.Diff(want, text), "file")
}

func TestATemplateThatCannotBeReadIsRefusedWithItsName(t *testing.T) {
	for name, tc := range map[string]struct{ source, text, want string }{
		"an extension without a quoting": {"own.yaml", "a", "own.json: own.yaml: the extension must be one of " +
			".conf .env .json .pem .service .sh .toml, since it selects how values are quoted"},
		"a broken template": {"own.env", "A={{ if }}", "own.json: template: own.env:1: missing value for if"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := own(t, tc.source, tc.text)
			require.EqualError(t, err, tc.want)
		})
	}
	system, err := own(t, "own.env", "A={{ .Parameters.other }}\nB={{ .Taints }}")
	require.NoError(t, err)
	_, err = rendered(t, system, "x")
	require.ErrorContains(t, err, `map has no entry for key "other"`)
	system, err = own(t, "own.env", "B={{ .Taints }}")
	require.NoError(t, err)
	_, err = rendered(t, system, "x")
	require.ErrorContains(t, err, "a value of the type []v1.Taint is not one text")
}

func TestAManifestIsCheckedWhenItIsLoaded(t *testing.T) {
	for manifest, want := range map[string]string{
		`{"format": "yaml"}`: `own.json: format "yaml" is not cloud-config or ignition`,
		`{"format": "ignition", "files": [{"path": "/a", "mode": "0600", "source": "a.sh", "when": "moon"}]}`:   `own.json: /a: there is no condition "moon"`,
		`{"format": "ignition", "files": [{"path": "/a", "mode": "0999", "source": "a.sh"}]}`:                   `own.json: /a: the mode "0999" is not octal`,
		`{"format": "ignition", "files": [{"path": "a", "mode": "0600", "source": "a.sh"}]}`:                    `own.json: "a": must be a clean absolute path of printable ASCII without spaces`,
		`{"format": "ignition", "files": [{"path": "/a", "mode": "0600", "source": "a.sh", "stage": "third"}]}`: `own.json: /a: stage "third" is not first, both or empty`,
		`{"format": "ignition", "units": [{"name": "a.service"}]}`:                                              `own.json: unit "a.service" needs a name, a source or mask, and the stage first, both or none`,
		`{"format": "ignition", "files": [{"path": "/a", "mode": "0600", "source": "b.sh"}]}`:                   `own.json: open b.sh: file does not exist`,
		`{"format": "ignition", "include": "other.json"}`:                                                       `open other.json: file does not exist`,
		`{"form": "ignition"}`: `own.json: json: unknown field "form"`,
	} {
		_, err := userdata.Load(fstest.MapFS{"own.json": {Data: []byte(manifest)}, "a.sh": {}}, "own.json")
		require.EqualError(t, err, want)
	}
}

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
	require.Empty(t, cmp.Diff(string(want), got), "%s (", file)
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

func TestADocumentIsMadeSmallerOnlyWhereItMustAndCan(t *testing.T) {
	c := minimal(t, "v1.36.3")
	c.Files = []userdata.File{{Path: "/etc/large", Content: userdata.NewSecret(strings.Repeat("many words ", 2000))}}
	for _, name := range userdata.Names() {
		doc, err := userdata.Render(builtin(t, name), c)
		require.NoError(t, err)
		if doc.Format() == userdata.Ignition {
			require.Less(t, doc.Size(), 16<<10, "its files are compressed")
			continue
		}
		for _, budget := range []userdata.Budget{{Bytes: 16 << 10, Binary: true}, {Bytes: 16 << 10}, {Bytes: 1 << 20}} {
			got, err := doc.Fit(budget)
			switch {
			case budget.Bytes == 1<<20:
				require.NoError(t, err)
				require.True(t, bytes.Equal(doc.Bytes(), got.Bytes()), "it stays readable")
			case !budget.Binary:
				require.Zero(t, got)
				require.ErrorContains(t, err, fmt.Sprintf("of %d bytes is over the limit of 16384 bytes: boot in two stages", doc.Size()))
			default:
				require.NoError(t, err)
				require.Less(t, got.Size(), budget.Bytes)
				want, err := userdata.Files(doc.Bytes())
				require.NoError(t, err)
				files, err := userdata.Files(got.Bytes())
				require.NoError(t, err)
				require.Equal(t, want, files)
				again, err := got.Fit(budget)
				require.NoError(t, err)
				require.True(t, bytes.Equal(got.Bytes(), again.Bytes()))
				_, err = got.Fit(userdata.Budget{Bytes: 100, Binary: true})
				require.ErrorContains(t, err, fmt.Sprintf("of %d bytes is over the limit", got.Size()), "it is compressed once only")
			}
		}
		_, err = doc.Fit(userdata.Budget{Bytes: 100, Binary: true})
		require.ErrorContains(t, err, "is over the limit of 100 bytes")
	}
}
