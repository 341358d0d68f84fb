package scale

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

// LimitsAnnotation of a set holds its RemediationLimits. Its deployment writes it.
const LimitsAnnotation = "machinist.dev/remediation"

// RemediationLimits say what a deployment lets one of its sets replace.
type RemediationLimits struct {
	// Outdated: the set does not have the template of the deployment, whose rollout removes its Machines. Nothing is replaced.
	Outdated bool
	// Elsewhere: another set of the deployment makes the Machines in place of those that this one deletes, which may not create any.
	Elsewhere bool
	// MaxInFlight is how many Machines may be remediated at once; absent is no limit.
	MaxInFlight contract.Opt[int]
	// MaxUnavailable is how many available Machines fewer than desired there may be because of remediations. A deployment allows none while
	// it rolls out: then others go.
	MaxUnavailable int
}

// String returns the value of LimitsAnnotation. Equal limits give equal texts.
func (l RemediationLimits) String() string {
	if l.Outdated {
		return "outdated"
	}
	text := "max-unavailable=" + strconv.Itoa(l.MaxUnavailable)
	if n, limited := l.MaxInFlight.Get(); limited {
		text += ",max-in-flight=" + strconv.Itoa(n)
	}
	if l.Elsewhere {
		text += ",elsewhere=1"
	}
	return text
}

// ParseLimits reads what String returns. The error names what cannot be read.
func ParseLimits(text string) (RemediationLimits, error) {
	var l RemediationLimits
	if text == "outdated" {
		l.Outdated = true
		return l, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil || n < 0:
			return RemediationLimits{}, fmt.Errorf("limits of remediation %q: %q is no number", text, part)
		case key == "max-unavailable":
			l.MaxUnavailable = n
		case key == "max-in-flight":
			l.MaxInFlight = contract.Some(n)
		case key == "elsewhere":
			l.Elsewhere = n > 0
		default:
			return RemediationLimits{}, fmt.Errorf("limits of remediation %q: %q is unknown", text, key)
		}
	}
	return l, nil
}

// LimitsOf returns the limits of a set. controlled: another object controls the set. Of one that says nothing, which is not a deployment of
// this module or has yet to write, it is unknown what else it does: one Machine at a time, and none that is available.
func LimitsOf(set *contract.Metadata, controlled bool) (RemediationLimits, error) {
	text, said := set.Annotations[LimitsAnnotation]
	switch {
	case !controlled:
		return RemediationLimits{}, nil
	case !said:
		return RemediationLimits{MaxInFlight: contract.Some(1)}, nil
	}
	return ParseLimits(text)
}
