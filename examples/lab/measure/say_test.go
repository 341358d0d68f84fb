package measure_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/measure"
)

func TestProgressOfTheControlPlaneHasTheNameOfTheBenchmark(t *testing.T) {
	var out bytes.Buffer
	written, err := measure.Progress{Say: measure.NewSay(&out, "drain-bench")}.Write([]byte("controlplane: etcd is ready\n"))
	require.NoError(t, err)
	require.Equal(t, len("controlplane: etcd is ready\n"), written)
	require.Equal(t, "drain-bench: etcd is ready\n", out.String())
}
