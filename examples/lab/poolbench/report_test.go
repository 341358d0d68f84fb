package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

func TestFlagsAreReadAndWrongOnesExplained(t *testing.T) {
	o, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1000, o.instances)
	require.Equal(t, []armName{armOurs, armCAPI}, o.arms)
	for _, wrong := range [][]string{{"--instances=0"}, {"--arms=theirs"}, {"--output=xml"}, {"--nonsense"}} {
		_, err := parse(wrong, io.Discard)
		require.ErrorIs(t, err, bench.ErrUsage, wrong)
	}
	var help strings.Builder
	_, err = parse([]string{"--help"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, help.String(), "Exit codes")
}

func TestTheTargetIsAThirdOfTheRequests(t *testing.T) {
	r := report{Instances: 10, Arms: []*figures{{Arm: armOurs, Requests: map[string]int{"patch nodes": 20}}}}
	require.Equal(t, "pool-bench: requests not measured", r.target())
	r.Arms = append(r.Arms, &figures{Arm: armCAPI, Requests: map[string]int{"patch nodes": 50, "get x": 10}})
	require.Equal(t, "pool-bench: requests ratio=0.33 (<=0.33 met)", r.target())
	r.Arms[0].Requests["get x"] = 1
	require.Contains(t, r.target(), "missed")
	var out strings.Builder
	r.table(&out)
	require.Contains(t, out.String(), "50 patch nodes")
}
