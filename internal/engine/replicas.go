package engine

import (
	"strconv"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

// FirstReplicas is the number of replicas of a new object that names none: the minimum that it gives cluster-autoscaler, by the key of
// Cluster API's group or of its own, or 1. Rule: the defaults of Cluster API's webhooks. An object that is not new keeps what it has: a
// manifest that leaves the number to an autoscaler does not change it.
func FirstReplicas(m *contract.Metadata, group string) int32 {
	_, name, _ := strings.Cut(contract.MinSizeAnnotation, "/")
	for _, key := range []string{contract.MinSizeAnnotation, group + "/" + name} {
		if n, err := strconv.ParseInt(m.Annotations[key], 10, 32); err == nil && n >= 0 {
			return int32(n)
		}
	}
	return 1
}
