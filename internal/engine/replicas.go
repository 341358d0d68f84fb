package engine

import (
	"context"
	"strconv"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

// NameReplicas stores, on the version that was read, the number of replicas of an object that names none: what is there, because a manifest
// that leaves the number to an autoscaler does not change it, or the first number of a new object. state and update are those of the Scope.
func (s *Scope[S, U]) NameReplicas(
	ctx context.Context, state *contract.ReplicatedState, update *contract.ReplicatedUpdate, there int32, isNew bool,
) error {
	if state.Replicas.Found() || s.Deleting() {
		return nil
	}
	if isNew {
		there = firstReplicas(s.Common().Metadata, s.frame.Kind.GVK.Group)
	}
	update.Replicas = contract.SetTo(there)
	return s.Commit(ctx)
}

// firstReplicas is the minimum that an object gives cluster-autoscaler, by the key of Cluster API's group or of its own, or 1. Rule: the
// defaults of Cluster API's webhooks.
func firstReplicas(m *contract.Metadata, group string) int32 {
	_, name, _ := strings.Cut(contract.MinSizeAnnotation, "/")
	for _, key := range []string{contract.MinSizeAnnotation, group + "/" + name} {
		if n, err := strconv.ParseInt(m.Annotations[key], 10, 32); err == nil && n >= 0 {
			return int32(n)
		}
	}
	return 1
}
