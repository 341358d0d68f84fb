package userdata_test

import (
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
		if diff := cmp.Diff(map[string]any{"a": value, "b": []any{value}}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
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
		if diff := cmp.Diff(value+"|v1.36.3", string(out)); diff != "" {
			t.Errorf("a shell reads (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(value, systemdReads(t, text)); diff != "" {
			t.Errorf("systemd reads (-want +got):\n%s", diff)
		}
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
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

func TestATemplateThatCannotBeReadIsRefusedWithItsName(t *testing.T) {
	for name, tc := range map[string]struct{ source, text, want string }{
		"an extension without a quoting": {"own.yaml", "a", "own.json: own.yaml: the extension must be one of " +
			".conf .env .json .pem .service .sh .toml, since it says how values are quoted"},
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
