package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/command"
)

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOnlyASuccessWhoseOutputIsLostBecomesAnotherCode(t *testing.T) {
	codes := command.Codes{Done: 0, Lost: 3}
	for name, tc := range map[string]struct {
		stdout     io.Writer
		ends, want int
		says       string
	}{
		"success":               {stdout: io.Discard},
		"success that is lost":  {stdout: full{}, want: 3, says: "program: write output: no space left\n"},
		"failure, and lost too": {stdout: full{}, ends: 1, want: 1},
	} {
		var stderr bytes.Buffer
		got := command.Run("program", codes, tc.stdout, &stderr, func(out io.Writer) int {
			_, _ = fmt.Fprintln(out, "a line")
			return tc.ends
		})
		require.Equal(t, tc.want, got, name)
		require.Equal(t, tc.says, stderr.String(), name)
	}
}
