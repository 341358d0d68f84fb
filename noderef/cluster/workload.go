package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// Nodes finds the Nodes of one cluster, in memory. NodeIndex implements it. Safe for concurrent use.
type Nodes interface {
	noderef.Lookup
	// HasSynced is false until all Nodes are listed; until then a Node that is not found is unread, not missing.
	HasSynced() bool
}

// Drainer drains Nodes. runner.Runner implements it. Safe for concurrent use.
type Drainer interface {
	// Step continues the drain of one Node, without blocking, and returns its progress. After an error that matches ErrNotConnected or
	// ErrNotSynced it is called again after a second, after any other with back-off; until then the drain waits.
	Step(context.Context, runner.Request) (runner.Result, error)
	// Release stops the drain of a Node and cancels queued evictions. It may be called repeatedly, for Nodes that Step was never called for,
	// and for Nodes of objects that no longer exist or are paused.
	Release(node string)
}

// Volumes reports whether a Node's volumes are detached. runner.Runner with volumes implements it. Safe for concurrent use.
type Volumes interface {
	// StepVolumes returns the progress of the wait for the volumes of one Node, without blocking. Errors are those of Drainer.Step.
	StepVolumes(context.Context, runner.Request, time.Duration) (runner.VolumesResult, error)
	// Release stops watching the volumes of a Node.
	Release(node string)
}

// Workload is the access to the Nodes of one cluster. The Node of an object is found, watched, written and drained only in the object's
// cluster: Nodes of two clusters may have the same names and provider IDs.
type Workload struct {
	// Nodes finds Nodes. It must be comparable, such as a *NodeIndex, and a different one for each connection: a Tracker then listens to the
	// new one. Its events enqueue objects if it has a method Source like NodeIndex.
	Nodes Nodes
	// Client writes Nodes; its writes must not block on a server that does not answer.
	Client client.Client
	// APIReader reads from the cluster's API server, to confirm that a Node which the index does not have is gone. If nil, Client is used,
	// which may read a cache as old as the index.
	APIReader client.Reader
	// Drainer drains Nodes; nil means that Nodes are not drained. Its events enqueue objects if it has a method Source like runner.Runner.
	Drainer Drainer
	// Volumes reports whether volumes are still attached to a Node; nil means no wait for volumes. It is usually the Drainer.
	Volumes Volumes
	// UID is the UID of the cluster's namespace kube-system; empty when unknown. See Recognize.
	UID types.UID
}

// Or returns a Workload that uses c, and r to read from the API server, if w has no Client.
func (w Workload) Or(c client.Client, r client.Reader) Workload {
	if w.Client != nil {
		return w
	}
	w.Client = c
	if w.APIReader == nil {
		w.APIReader = r
	}
	return w
}

// IsGone makes one request to confirm that a recorded Node is gone: there is no Node of its name, or isStill returns false for it.
// ConfirmGone may make a second request.
func (w Workload) IsGone(ctx context.Context, name string, isStill func(*corev1.Node) bool) (bool, error) {
	var live corev1.Node
	err := w.reader().Get(ctx, client.ObjectKey{Name: name}, &live)
	if err == nil {
		return !isStill(&live), nil
	}
	if !w.ConfirmGone(ctx, name, err) {
		return false, fmt.Errorf("make sure that Node %s is gone: %w", name, err)
	}
	return true, nil
}

// ConfirmGone reports whether the error of a request means that there is no Node of that name. A 404 without the body of an API server may
// come from a proxy, or from a path that is not served; some servers send no other. Then ConfirmGone makes a list request, which is also
// correct on a server without support for the field selector.
func (w Workload) ConfirmGone(ctx context.Context, name string, err error) bool {
	if external.IsGone(err) || !apierrors.IsNotFound(err) {
		return external.IsGone(err)
	}
	var list corev1.NodeList
	failed := w.reader().List(ctx, &list, client.MatchingFields{"metadata.name": name})
	return failed == nil && !slices.ContainsFunc(list.Items, func(node corev1.Node) bool { return node.Name == name })
}

// reader reads from the API server if possible.
func (w Workload) reader() client.Reader {
	if w.APIReader != nil {
		return w.APIReader
	}
	return w.Client
}

// Release stops the drain of a Node, and the wait for its volumes. It does nothing for an empty name.
func (w Workload) Release(node string) {
	if node != "" && w.Drainer != nil {
		w.Drainer.Release(node)
	}
	if node != "" && w.Volumes != nil {
		w.Volumes.Release(node)
	}
}

var errNoNamespaces = errors.New(
	"a MachineDrainRule needs labels of namespaces: let the Drainer have the method NamespaceLabels",
)

// NamespaceLabels returns a function of the Drainer that looks up labels of namespaces in memory, for drain rules with namespace selectors.
// It must not be called after ctx has ended. The Drainer must have this method too, like runner.Runner: the first call starts the list of
// namespaces, and the error matches ErrNotSynced until it is complete.
func (w Workload) NamespaceLabels(ctx context.Context) (drain.NamespaceLabels, error) {
	reader, ok := w.Drainer.(interface {
		NamespaceLabels(ctx context.Context) (drain.NamespaceLabels, error)
	})
	if !ok {
		return nil, errNoNamespaces
	}
	labels, err := reader.NamespaceLabels(ctx)
	if errors.Is(err, runner.ErrNotListed) {
		err = fmt.Errorf("%w: %w", ErrNotSynced, err)
	}
	return labels, err
}

// ErrNoCluster matches the error of Tracker.Of for an object without a cluster name, when there is no cluster for such objects.
var ErrNoCluster = errors.New("the object names no cluster")

// IsUnread reports whether an error only means that a cluster cannot be read now. An event follows when it can.
func IsUnread(err error) bool {
	return errors.Is(err, ErrNotConnected) || errors.Is(err, ErrNotSynced) || errors.Is(err, ErrNoCluster)
}

// Unread returns why the Nodes of a cluster are unknown: the text of err, or for nil that their first list is not complete. The zero name
// is that of TrackerConfig.Own.
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

// ErrNodeChanged matches the error of PatchNode when the Node has changed since it was read, or the cluster cannot be reached now: read the
// Node and decide again.
var ErrNodeChanged = errors.New("the Node is not as it was read")

// PatchNode sends a patch of a Node through a Writer, which records it. The patch must contain the UID of the Node. If the Node is gone,
// PatchNode returns nil: an event follows. Any other error that does not match ErrNodeChanged names the Node.
func (w Workload) PatchNode(ctx context.Context, through *patch.Writer, node *corev1.Node, kind types.PatchType, body []byte) error {
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err := through.PatchThrough(ctx, w.Client, target, client.RawPatch(kind, body))
	switch {
	case err == nil, w.ConfirmGone(ctx, node.Name, err):
		return nil
	case propagate.Rejected(err), apierrors.IsConflict(err), IsUnread(err):
		return fmt.Errorf("%w: %w", ErrNodeChanged, err)
	}
	return fmt.Errorf("write Node %s: %w", node.Name, err)
}
