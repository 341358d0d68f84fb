package scale

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

// LimitsAnnotation of a set holds its RemediationLimits. Its deployment writes it.
const LimitsAnnotation = "machinist.dev/remediation"

// RemediationLimits say what a deployment lets one of its sets replace.
type RemediationLimits struct {
	// Outdated: the set does not have the template of the deployment, whose rollout removes its Machines. Nothing is replaced.
	Outdated bool `json:"outdated,omitempty"`
	// Elsewhere: another set of the deployment makes the Machines in place of those that this one deletes, which may not create any.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// MaxInFlight is how many Machines may be remediated at once; nil is no limit.
	MaxInFlight *int `json:"maxInFlight,omitempty"`
	// MaxUnavailable is how many available Machines fewer than desired there may be because of remediations. A deployment allows none while
	// it rolls out: then others go.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
}

// String returns the value of LimitsAnnotation. Equal limits give equal texts.
func (l RemediationLimits) String() string {
	text, err := json.Marshal(l)
	if err != nil {
		return "" // numbers always have a text
	}
	return string(text)
}

// ParseLimits reads what String returns. A text with anything else cannot be read: limits would be left out.
func ParseLimits(text string) (l RemediationLimits, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&l); err != nil {
		return RemediationLimits{}, fmt.Errorf("limits of remediation %q: %w", text, err)
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
		return RemediationLimits{MaxInFlight: new(1)}, nil
	}
	return ParseLimits(text)
}
