package autoscaler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
)

func TestKeys_ParseOptions(t *testing.T) {
	const prefix = "cluster.x-k8s.io/autoscaling-options-"
	const kept = " (the autoscaler keeps its default)"
	tests := map[string]struct {
		annotations map[string]string
		want        autoscaler.Options
		err         string
	}{
		"none": {},
		"all of them": {
			annotations: map[string]string{
				prefix + "scaledownutilizationthreshold": "0.5", prefix + "scaledowngpuutilizationthreshold": "1",
				prefix + "scaledownunneededtime": "10m", prefix + "scaledownunreadytime": "1h30m",
				prefix + "maxnodeprovisiontime": "20m", prefix + "maxnodestartuptime": "0s", "other": "x",
			},
			want: autoscaler.Options{
				ScaleDownUtilizationThreshold: contract.Some(0.5), ScaleDownGPUUtilizationThreshold: contract.Some(1.0),
				ScaleDownUnneededTime: contract.Some(10 * time.Minute), ScaleDownUnreadyTime: contract.Some(90 * time.Minute),
				MaxNodeProvisionTime: contract.Some(20 * time.Minute), MaxNodeStartupTime: contract.Some(time.Duration(0)),
			},
		},
		"an empty value is absent": {annotations: map[string]string{prefix + "maxnodeprovisiontime": ""}},
		"values are read in lower case": {annotations: map[string]string{prefix + "scaledownunneededtime": "10M"},
			want: autoscaler.Options{ScaleDownUnneededTime: contract.Some(10 * time.Minute)}},
		"a number is no duration, and the others are still read": {
			annotations: map[string]string{prefix + "maxnodeprovisiontime": "20", prefix + "scaledownunreadytime": "1m"},
			want:        autoscaler.Options{ScaleDownUnreadyTime: contract.Some(time.Minute)},
			err:         `annotation ` + prefix + `maxnodeprovisiontime: found "20", want a duration from 0, as in "10m" or "1h30m"` + kept,
		},
		"what can be parsed may still mean nothing": {
			annotations: map[string]string{prefix + "scaledownutilizationthreshold": "NaN", prefix + "scaledowngpuutilizationthreshold": "-0.5"},
			err: `annotation ` + prefix + `scaledowngpuutilizationthreshold: found "-0.5", want a number from 0, as in "0.5"` + kept + "\n" +
				`annotation ` + prefix + `scaledownutilizationthreshold: found "NaN", want a number from 0, as in "0.5"` + kept,
		},
		"an unknown option is not passed over": {
			annotations: map[string]string{prefix + "maxNodeProvisionTime": "20m"},
			err: `annotation ` + prefix + `maxNodeProvisionTime: found "20m", want the name of an option: scaledownutilizationthreshold, ` +
				`scaledowngpuutilizationthreshold, scaledownunneededtime, scaledownunreadytime, maxnodeprovisiontime or maxnodestartuptime` + kept,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := autoscaler.Keys{}.ParseOptions(tc.annotations)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tc.err)
				require.ErrorIs(t, err, autoscaler.ErrAnnotation)
			}
			require.Equal(t, tc.want, got)
		})
	}
}
