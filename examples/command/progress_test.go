package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		live bool
		want string
	}{
		"prints only lines where there is no terminal": {want: "a line\n"},
		"has a status below the lines on a terminal": {live: true,
			want: toStart + "2 Pending" + toStart + "a line\n2 Pending" + toStart + strings.Repeat("x", 79) + toStart},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := &Progress{out: &out, live: tc.live}
			p.Show("2 Pending")
			p.Show("2 Pending")
			p.Line("a line")
			p.Show(strings.Repeat("x", 200))
			p.Show("")
			require.Equal(t, tc.want, out.String())
		})
	}
}

func TestTerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "out")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	require.False(t, terminal(&writer{Writer: file}), "a file is none")
	require.False(t, terminal(&bytes.Buffer{}))
}
