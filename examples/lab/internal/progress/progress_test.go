package progress_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

func TestPrintf(t *testing.T) {
	var out bytes.Buffer
	t.Run("prints lines of another one as its own", func(t *testing.T) {
		inner := progress.New(progress.New(&out, "drain-bench"), "controlplane")
		inner("etcd is ready (%s)", "took: 2s")
		require.Equal(t, "drain-bench: etcd is ready (took: 2s)\n", out.String())
	})
	t.Run("prints nothing without a writer", func(*testing.T) {
		var none io.Writer
		progress.New(none, "controlplane")("etcd is ready")
	})
}
