package command_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/command"
)

func TestHelpEndsAProgramWellAndAMistakeIsPrintedOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args           []string
		code           int
		refused        bool
		stdout, stderr string
	}{
		{args: []string{"-n", "2"}},
		{args: []string{"-h"}, refused: true, stdout: "counts.\n  -n int\n    \thow many (default 1)\n"},
		{args: []string{"-m"}, code: 2, refused: true,
			stderr: "program: wrong: flag provided but not defined: -m\nRun with --help for help.\n"},
	} {
		var stdout, stderr bytes.Buffer
		flags := flag.NewFlagSet("program", flag.ContinueOnError)
		n := flags.Int("n", 1, "how many")
		err := command.Parse(flags, tc.args, "counts.\n", &stdout)
		if err != nil {
			err = fmt.Errorf("%w: %w", errors.New("wrong"), err) // callers may wrap it
		}
		code, refused := command.Refused("program", err, &stderr)
		require.Equal(t, tc.code, code, tc.args)
		require.Equal(t, tc.refused, refused, tc.args)
		require.Equal(t, tc.stdout, stdout.String())
		require.Equal(t, tc.stderr, stderr.String())
		require.True(t, refused || *n == 2)
	}
}
