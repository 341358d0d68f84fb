package autoscaler

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// Options are settings of the autoscaler for one group. An absent one leaves the autoscaler's own default.
type Options struct {
	// ScaleDownUtilizationThreshold and ScaleDownGPUUtilizationThreshold are fractions: a Node that is used less may go.
	ScaleDownUtilizationThreshold, ScaleDownGPUUtilizationThreshold contract.Opt[float64]
	// ScaleDownUnneededTime and ScaleDownUnreadyTime are how long a Node must have been unneeded, or unready, before it goes.
	ScaleDownUnneededTime, ScaleDownUnreadyTime contract.Opt[time.Duration]
	// MaxNodeProvisionTime is how long an instance may take to become a Node before it is removed; 15 minutes by default.
	MaxNodeProvisionTime contract.Opt[time.Duration]
	// MaxNodeStartupTime is how long a Node may take to become Ready.
	MaxNodeStartupTime contract.Opt[time.Duration]
}

// ParseOptions reads the annotations that begin with OptionPrefix. A value may be in any case, and an empty one is absent, as
// in the autoscaler. The error joins one AnnotationError for each value that cannot be read and for each unknown option, which
// the autoscaler would pass over; the options that could be read are returned beside it.
func (k Keys) ParseOptions(annotations map[string]string) (Options, error) {
	options, problems := k.orDefault().options(annotations)
	return options, joined(problems)
}

func (k Keys) options(annotations map[string]string) (options Options, problems []*AnnotationError) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(key, k.OptionPrefix)
		if !ours || annotations[key] == "" {
			continue
		}
		if want := options.set(name, strings.ToLower(annotations[key])); want != "" {
			problems = append(problems, &AnnotationError{Key: key, Found: quoted(annotations[key]), Want: want,
				Effect: "the autoscaler keeps its default"})
		}
	}
	return options, problems
}

// set returns what is wanted instead, or nothing.
func (o *Options) set(name, text string) string {
	switch name {
	case "scaledownutilizationthreshold":
		return setFraction(&o.ScaleDownUtilizationThreshold, text)
	case "scaledowngpuutilizationthreshold":
		return setFraction(&o.ScaleDownGPUUtilizationThreshold, text)
	case "scaledownunneededtime":
		return setDuration(&o.ScaleDownUnneededTime, text)
	case "scaledownunreadytime":
		return setDuration(&o.ScaleDownUnreadyTime, text)
	case "maxnodeprovisiontime":
		return setDuration(&o.MaxNodeProvisionTime, text)
	case "maxnodestartuptime":
		return setDuration(&o.MaxNodeStartupTime, text)
	default:
		return "the name of an option: scaledownutilizationthreshold, scaledowngpuutilizationthreshold, scaledownunneededtime, " +
			"scaledownunreadytime, maxnodeprovisiontime or maxnodestartuptime"
	}
}

func setFraction(into *contract.Opt[float64], text string) string {
	// Not a number and infinity can be parsed, but mean no threshold.
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return `a number from 0, as in "0.5"`
	}
	*into = contract.Some(n)
	return ""
}

func setDuration(into *contract.Opt[time.Duration], text string) string {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return `a duration from 0, as in "10m" or "1h30m"`
	}
	*into = contract.Some(d)
	return ""
}
