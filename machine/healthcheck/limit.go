package healthcheck

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// errLimit is the error for a maximum or a range that is invalid.
var errLimit = errors.New("the limit of unhealthy Machines cannot be read")

// limit is the number of unhealthy Machines up to which they are remediated.
type limit struct {
	least int
	most  intstr.IntOrString
	in    string // the text of the range, or empty
}

// parseLimit reads PlanFacts.MaxUnhealthy, which is 100% by default as in Cluster API, and UnhealthyRange.
func parseLimit(maximum contract.Opt[intstr.IntOrString], inRange string) (limit, error) {
	if inRange == "" {
		most := maximum.Or(intstr.FromString("100%"))
		if n, err := intstr.GetScaledValueFromIntOrPercent(&most, 100, false); err != nil || n < 0 {
			return limit{}, fmt.Errorf("%w: %q is no number and no percentage such as 40%%", errLimit, most.String())
		}
		return limit{most: most}, nil
	}
	inner, opened := strings.CutPrefix(inRange, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	least, most, parts := strings.Cut(inner, "-")
	from, errFrom := strconv.ParseUint(least, 10, 31)
	to, errTo := strconv.ParseUint(most, 10, 31)
	if !opened || !closed || !parts || errFrom != nil || errTo != nil || to < from {
		return limit{}, fmt.Errorf("%w: %q is no range such as [3-5]", errLimit, inRange)
	}
	return limit{least: int(from), most: intstr.FromInt32(int32(to)), in: inRange}, nil //nolint:gosec // 31 bits
}

// allows reports whether a number of unhealthy Machines of a total is remediated, and how many more may become unhealthy. Rule: Cluster
// API's isAllowedRemediation.
func (l limit) allows(total, unhealthy int) (allowed bool, remaining int) {
	most, _ := intstr.GetScaledValueFromIntOrPercent(&l.most, total, false) // parseLimit has validated it
	if unhealthy < l.least || unhealthy > most {
		return false, 0
	}
	return true, most - unhealthy
}

// refusal is the message for a number that is not allowed. The text is Cluster API's.
func (l limit) refusal(total, unhealthy int) string {
	what, limit := "exceeds maxUnhealthy", "maxUnhealthy: "+l.most.String()
	if l.in != "" {
		what, limit = "does not fall within the range", "unhealthyRange: "+l.in
	}
	return fmt.Sprintf("Remediation is not allowed, the number of not started or unhealthy machines %s (total: %d, unhealthy: %d, %s)",
		what, total, unhealthy, limit)
}
