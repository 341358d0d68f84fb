package scale

import (
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

// ReceivedAnnotation of a set holds Received as text. The deployment writes it together with spec.replicas.
const ReceivedAnnotation = "machinist.dev/received-machines"

// Received says which Machines that were moved to a set its number of replicas includes. A set that counted a moved Machine before its
// replicas were raised would delete one too many, and one that saw its replicas before the Machine would create one. Rule: Cluster API's
// acknowledged-move annotation.
type Received struct {
	// Through is the resource version that a cache of Machines must have seen, empty for any.
	Through string
	// Names are the Machines that still carry contract.InPlaceMoved, sorted.
	Names []string
}

// ReceivedBy reads what the annotations of a set say.
func ReceivedBy(set *contract.Metadata) Received {
	through, names, _ := strings.Cut(set.Annotations[ReceivedAnnotation], ":")
	return Received{Through: through, Names: strings.FieldsFunc(names, func(r rune) bool { return r == ',' })}
}

// String returns the value of ReceivedAnnotation.
func (r Received) String() string { return r.Through + ":" + strings.Join(r.Names, ",") }

// Counted returns the Machines that a set counts: all but those moved to it that are not received yet. The input is not changed.
func (r Received) Counted(machines []Machine) []Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m Machine) bool {
		return m.Moved && !m.Deleting && !slices.Contains(r.Names, m.Name)
	})
}
