package kubectl

import (
	"cmp"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	"github.com/machinist-dev/machinist/drain"
)

// ReasonPodFilter is the reason of Pods that a PodFilter skips or denies.
const ReasonPodFilter drain.Reason = "PodFilter"

// Options are the fields of kubectl's Helper that decide about Pods. The zero value is kubectl drain without flags.
type Options struct {
	drain.KubectlOptions
	// AdditionalFilters are applied after kubectl's own filters, as by Helper, and before KubectlOptions.Additional.
	AdditionalFilters []kubectldrain.PodFilter
}

// Rules returns [drain.KubectlRules] with the additional filters. o is copied; its functions and filters must be safe for concurrent use if
// the rules are used concurrently.
func Rules(o Options) []drain.Rule {
	rules := make([]drain.Rule, 0, len(o.AdditionalFilters)+len(o.Additional))
	for _, f := range o.AdditionalFilters {
		rules = append(rules, fromFilter(f))
	}
	o.Additional = append(rules, o.Additional...)
	return drain.KubectlRules(o.KubectlOptions)
}

// fromFilter returns f as a rule that decides like an additional filter of kubectl. It is not applied to Pods that an earlier rule ignores.
// Okay does not change the verdict. Skip, and any other status that does not delete, ignores the Pod. A warning is added to those of the
// verdict, which are dropped when the Pod stays. An error denies the Pod with the message that kubectl prints, even if the status deletes,
// and later filters do not overwrite it. A nil filter denies every Pod.
//
// f gets a copy of the Pod whose maps and slices are shared with the cache: it must not write to them. It must not call an API, because it
// runs for every Pod in every plan.
func fromFilter(f kubectldrain.PodFilter) drain.Rule {
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
		return drain.Verdict{Action: drain.Deny, Order: prev.Order, Reason: ReasonPodFilter,
			Message: "cannot delete " + cmp.Or(status.Message, "unexpected error")}
	case !status.Delete: // earlier warnings about its eviction do not apply
		v = drain.Verdict{Action: drain.Ignore, Order: prev.Order, Reason: ReasonPodFilter, Message: status.Message}
	}
	if status.Reason == kubectldrain.PodDeleteStatusTypeWarning {
		v.Warnings = append(slices.Clip(v.Warnings), status.Message)
	}
	return v
}
