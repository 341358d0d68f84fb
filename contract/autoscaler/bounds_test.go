package autoscaler_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
)

const (
	minKey = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxKey = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
)

// sizes are the annotations with these values; "-" leaves one out.
func sizes(lower, upper string) map[string]string {
	annotations := map[string]string{}
	if lower != "-" {
		annotations[minKey] = lower
	}
	if upper != "-" {
		annotations[maxKey] = upper
	}
	return annotations
}

func TestKeys_ParseBoundsFollowsTheAutoscaler(t *testing.T) {
	const poison = " (one such object makes the autoscaler drop every node group of the cluster)"
	tests := map[string]struct {
		lower, upper string
		min, max     contract.Opt[int64]
		scaled       bool
		is           error
		err          string
	}{
		"both": {lower: "1", upper: "5", min: contract.Some[int64](1), max: contract.Some[int64](5),
			scaled: true},
		"the same size twice": {lower: "3", upper: "3", min: contract.Some[int64](3), max: contract.Some[int64](3),
			scaled: true},
		"no annotations are two zeros":     {lower: "-", upper: "-"},
		"a maximum alone":                  {lower: "-", upper: "5", max: contract.Some[int64](5), scaled: true},
		"a minimum of 0 without a maximum": {lower: "0", upper: "-", min: contract.Some[int64](0)},
		"two zeros":                        {lower: "0", upper: "0", min: contract.Some[int64](0), max: contract.Some[int64](0)},
		"a plus sign is a number": {lower: "+1", upper: "05", min: contract.Some[int64](1), max: contract.Some[int64](5),
			scaled: true},
		"more than 32 bits": {lower: "0", upper: "5000000000", min: contract.Some[int64](0),
			max: contract.Some[int64](5000000000), scaled: true},
		"a minimum without a maximum": {lower: "1", upper: "-", is: autoscaler.ErrMinAboveMax,
			err: "annotation " + maxKey + ": found nothing, want at least the minimum size, 1" + poison},
		"a minimum above the maximum": {lower: "2", upper: "1", is: autoscaler.ErrMinAboveMax,
			err: `annotation ` + maxKey + `: found "1", want at least the minimum size, 2` + poison},
		"a negative minimum": {lower: "-1", upper: "1", is: autoscaler.ErrMinSize,
			err: `annotation ` + minKey + `: found "-1", want a whole number from 0` + poison},
		"a negative maximum": {lower: "-", upper: "-1", is: autoscaler.ErrMaxSize,
			err: `annotation ` + maxKey + `: found "-1", want a whole number from 0` + poison},
		"text": {lower: "one", upper: "1", is: autoscaler.ErrMinSize,
			err: `annotation ` + minKey + `: found "one", want a whole number from 0` + poison},
		"the empty text": {lower: "0", upper: "", is: autoscaler.ErrMaxSize,
			err: `annotation ` + maxKey + `: found "", want a whole number from 0` + poison},
		"a space": {lower: "0", upper: "1 ", is: autoscaler.ErrMaxSize,
			err: `annotation ` + maxKey + `: found "1 ", want a whole number from 0` + poison},
		"a fraction": {lower: "0", upper: "1.0", is: autoscaler.ErrMaxSize,
			err: `annotation ` + maxKey + `: found "1.0", want a whole number from 0` + poison},
		"more than 64 bits": {lower: "0", upper: "9223372036854775808", is: autoscaler.ErrMaxSize,
			err: `annotation ` + maxKey + `: found "9223372036854775808", want a whole number from 0` + poison},
		"a bad minimum comes before a bad max": {lower: "x", upper: "y", is: autoscaler.ErrMinSize,
			err: `annotation ` + minKey + `: found "x", want a whole number from 0` + poison},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := autoscaler.DefaultKeys().ParseBounds(sizes(tc.lower, tc.upper))
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				require.ErrorIs(t, err, tc.is)
				require.ErrorIs(t, err, autoscaler.ErrAnnotation)
				var wrong *autoscaler.AnnotationError
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, autoscaler.Bounds{}, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, autoscaler.Bounds{Min: tc.min, Max: tc.max}, got)
			require.Equal(t, tc.scaled, got.Scaled())
		})
	}
}

func TestKeys_ParseBoundsReadsTheKeysOfItsGroup(t *testing.T) {
	annotations := sizes("x", "y")
	annotations["cluster.k8s.io/cluster-api-autoscaler-node-group-max-size"] = "4"
	got, err := autoscaler.KeysFor("cluster.k8s.io").ParseBounds(annotations)
	require.NoError(t, err)
	require.Equal(t, autoscaler.Bounds{Max: contract.Some[int64](4)}, got)
	_, err = autoscaler.Keys{}.ParseBounds(annotations)
	require.ErrorIs(t, err, autoscaler.ErrMinSize, "the zero Keys are the default ones")
}

func TestAnnotationError_ShowsTheStartOfALongValue(t *testing.T) {
	_, err := autoscaler.DefaultKeys().ParseBounds(sizes("0", strings.Repeat("ä", 1<<20)))
	require.ErrorIs(t, err, autoscaler.ErrMaxSize)
	require.Contains(t, err.Error(), `"`+strings.Repeat("ä", 30)+`"... (2097152 bytes)`)
	require.Less(t, len(err.Error()), 400)
}

func TestBounds_Contains(t *testing.T) {
	b := autoscaler.Bounds{Min: contract.Some[int64](1), Max: contract.Some[int64](3)}
	for replicas, want := range map[int64]bool{-1: false, 0: false, 1: true, 3: true, 4: false} {
		require.Equal(t, want, b.Contains(replicas), "%d", replicas)
	}
	require.True(t, autoscaler.Bounds{}.Contains(0))
}
