package kubectl

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	"github.com/machinist-dev/machinist/drain"
)

// ReasonPodFilter is the reason of pods that a PodFilter leaves out or refuses.
const ReasonPodFilter drain.Reason = "PodFilter"

// Options are those fields of kubectl's Helper that decide about pods. The zero value is kubectl drain without flags.
type Options struct {
	drain.KubectlOptions
	// AdditionalFilters are asked after kubectl's own filters, as Helper does, and before KubectlOptions.Additional.
	AdditionalFilters []kubectldrain.PodFilter
}

// Rules returns [drain.KubectlRules] with the additional filters among them. o is copied; its functions and filters must
// be safe for concurrent use if the rules are used so.
func Rules(o Options) []drain.Rule {
	rules := make([]drain.Rule, 0, len(o.AdditionalFilters)+len(o.Additional))
	for _, f := range o.AdditionalFilters {
		rules = append(rules, FromFilter(f))
	}
	o.Additional = append(rules, o.Additional...)
	return drain.KubectlRules(o.KubectlOptions)
}

// FromFilter returns f as a rule with the meaning that it has among kubectl's additional filters. It is not asked about
// pods that an earlier rule ignores. Okay leaves the verdict as it is; Skip, and whatever else does not delete, ignores the
// pod; a warning is added to the verdict's, which are dropped when the
// pod stays; an error denies the pod with the words that kubectl prints, also when
// the status says delete, and no later filter overwrites it. A nil filter denies every pod.
//
// f gets a copy of the pod whose maps and slices are shared with the cache: it must not write to them, and must not call
// an API, since it runs for every pod in every plan.
func FromFilter(f kubectldrain.PodFilter) drain.Rule {
	return func(pod *corev1.Pod, prev drain.Verdict) (drain.Verdict, error) {
		if prev.Action == drain.Ignore {
			return prev, nil
		}
		if f == nil {
			return prev, errors.New("a nil PodFilter is among the drain rules: leave it out")
		}
		return translate(f(*pod), prev), nil
	}
}

func translate(status kubectldrain.PodDeleteStatus, prev drain.Verdict) drain.Verdict {
	v := prev
	switch {
	case status.Reason == kubectldrain.PodDeleteStatusTypeError:
		return drain.Verdict{Action: drain.Deny, Order: prev.Order, Reason: ReasonPodFilter, Message: errorText(status.Message)}
	case !status.Delete: // what was said about the pod's going does not matter any more
		v = drain.Verdict{Action: drain.Ignore, Order: prev.Order, Reason: ReasonPodFilter, Message: status.Message}
	}
	if status.Reason == kubectldrain.PodDeleteStatusTypeWarning {
		v.Warnings = append(slices.Clip(v.Warnings), status.Message)
	}
	return v
}

// errorText is what kubectl prints before the names of the pods.
func errorText(message string) string {
	if message == "" {
		message = "unexpected error"
	}
	return "cannot delete " + message
}
