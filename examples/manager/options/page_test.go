package options_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/manager/options"
)

var update = flag.Bool("update", false, "write "+flagsPage)

const flagsPage = "FLAGS.md"

func TestDocumentationOfFlagsIsCurrent(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", flagsPage)
	got := pageOf(options.Defaults())
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got): run make generate\n%s", file, diff)
	}
}

func pageOf(o options.Options) string {
	var page strings.Builder
	page.WriteString(`# Flags of the manager

Generated from package [options](options) by ` + "`make generate`" + `. A switch needs no value. All of them but ` +
		"`--config`,\n`--print-config` and other names of a flag can be in a file for `--config`, as `name: value` without the dashes.\n")
	for _, g := range o.Groups() {
		fmt.Fprintf(&page, "\n## %s\n\n| Flag | Default | Meaning |\n|---|---|---|\n", g.Name)
		for _, f := range g.Shown() {
			value := ""
			if f.Value != "" {
				value = " *" + f.Value + "*"
			}
			standard := ""
			if f.Default != "" {
				standard = "`" + f.Default + "`"
			}
			fmt.Fprintf(&page, "| `--%s`%s | %s | %s |\n", f.Name, value, standard, strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(f.Usage))
		}
	}
	return page.String()
}
