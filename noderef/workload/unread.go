package workload

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/noderef/cluster"
)

// ErrNoCluster matches the error of Tracker.Of for an object that names no cluster, where there is no cluster for such objects.
var ErrNoCluster = errors.New("the object names no cluster")

// noClusterError is the ErrNoCluster of one kind of objects.
type noClusterError struct{ kind string }

func (e noClusterError) Error() string {
	return fmt.Sprintf("the %[1]s names no cluster, and this controller has none of its own for such %[1]ss: name the %[1]s's cluster", e.kind)
}

func (noClusterError) Is(target error) bool { return target == ErrNoCluster }

// IsUnread reports whether an error only means that a cluster cannot be read now, which ends with an event.
func IsUnread(err error) bool {
	return errors.Is(err, cluster.ErrNotConnected) || errors.Is(err, cluster.ErrNotSynced) || errors.Is(err, ErrNoCluster)
}

// Unread says why the Nodes of a cluster are not known: err, or without one that their first list is not complete. The zero name is that of
// Config.Own.
func Unread(key types.NamespacedName, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case key != types.NamespacedName{}:
		return "Waiting for the first list of Nodes of cluster " + key.String()
	default:
		return "Waiting for the first list of Nodes"
	}
}
