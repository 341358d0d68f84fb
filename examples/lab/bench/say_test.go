package bench_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

func TestProgressOfTheControlPlaneHasTheNameOfTheBenchmark(t *testing.T) {
	var out bytes.Buffer
	written, err := bench.Progress{Say: bench.NewSay(&out, "drain-bench")}.Write([]byte("controlplane: etcd is ready\n"))
	require.NoError(t, err)
	require.Equal(t, len("controlplane: etcd is ready\n"), written)
	require.Equal(t, "drain-bench: etcd is ready\n", out.String())
}
