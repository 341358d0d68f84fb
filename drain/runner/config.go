package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Config configures a [Runner]. Durations of zero or less mean the default in the comment of the field.
type Config struct {
	// Nodes patches Nodes. Required.
	Nodes client.Writer
	// Pods is the source of the Pods of draining Nodes; the Runner runs it. Required.
	Pods PodSource
	// Evictor requests evictions and deletions. Required.
	Evictor Evictor
	// Budgets returns the PodDisruptionBudgets of a Namespace from a cache, as shared objects that must not be changed. Every Step calls it
	// for the Namespaces of the Pods of its Node. If it is nil, only the responses of the API server count: each refused Pod is requested
	// again after 15 s.
	Budgets func(ctx context.Context, namespace string) ([]*policyv1.PodDisruptionBudget, error)
	// Metrics are optional. The caller registers them.
	Metrics *Metrics

	// CallTimeout is the timeout of a single API call; 10 s.
	CallTimeout time.Duration
	// Debounce is how long events are collected before an owner is enqueued; 100 ms.
	Debounce time.Duration
	// Settle is how long a Node must have been cordoned without a new Pod before its drain can be Done, because the scheduler may bind one
	// more Pod right after the cordon; 2 s. Negative means none. It counts from the first Step of the process.
	Settle time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

const (
	// maxInFlight limits the requests in flight: about a quarter of what the API server's priority and fairness allows one client.
	maxInFlight = 64
	// probeInterval is the interval of requests for a closed budget that does not change.
	probeInterval = 15 * time.Second
)

// errNodeReplaced means that the Node in the API server has another UID than the Node that was passed.
var errNodeReplaced = errors.New("the node was replaced by another one of the same name")

// errStopped means that the context of the Runner has ended, for example because leadership was lost.
var errStopped = errors.New("the drain runner has stopped")

// errInvalidRequest marks errors about the arguments of Step.
var errInvalidRequest = errors.New("invalid request")

func (c *Config) complete() error {
	if c.Nodes == nil || c.Pods == nil || c.Evictor == nil {
		return errors.New("the fields Nodes, Pods and Evictor are required")
	}
	c.CallTimeout = cmp.Or(max(c.CallTimeout, 0), 10*time.Second)
	c.Debounce = cmp.Or(max(c.Debounce, 0), 100*time.Millisecond)
	c.Settle = max(0, cmp.Or(c.Settle, 2*time.Second))
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}

// PolicyRules returns the permissions that a [Runner] of [NewForCluster] or [AddToManager], and [Drain], need in the cluster whose Nodes
// are drained. Drain also gets Nodes and does not need the permissions for volumes; a Runner of [New] needs those of its parts.
func PolicyRules() []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return contract.MergePolicyRules([]rbacv1.PolicyRule{
		rule("", "nodes", "patch"),
		rule("", "pods", "list", "watch", "delete"),
		rule("", "pods/eviction", "create"),
		rule("policy", "poddisruptionbudgets", "list", "watch"),
		rule("", "persistentvolumes", "list", "watch"),
		rule("storage.k8s.io", "volumeattachments", "list", "watch"),
	})
}
