package scale

import (
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

// ReceivedAnnotation of a set holds Received as text. The deployment writes it together with spec.replicas.
const ReceivedAnnotation = "machinist.dev/received-machines"

// Received are the names of the Machines that were moved to a set, still have contract.InPlaceMoved, and are included in its number of
// replicas, sorted. A set that counted a moved Machine before its replicas were raised would delete one too many. Rule: Cluster API's
// acknowledged-move annotation.
type Received []string

// ReceivedBy reads what the annotations of a set have.
func ReceivedBy(set *contract.Metadata) Received {
	return strings.FieldsFunc(set.Annotations[ReceivedAnnotation], func(r rune) bool { return r == ',' })
}

// String returns the value of ReceivedAnnotation.
func (r Received) String() string { return strings.Join(r, ",") }

// Counted returns the Machines that a set counts: all but those moved to it that are not received yet. The input is not changed.
func (r Received) Counted(machines []Machine) []Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m Machine) bool {
		return m.Moved && !m.Deleting && !slices.Contains(r, m.Name)
	})
}
