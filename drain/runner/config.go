package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Config configures a [Runner]. Zero durations mean the default in the comment of the field.
type Config struct {
	// Nodes patches Nodes. Required.
	Nodes client.Writer
	// Pods is the source of the Pods of draining Nodes; the Runner runs it. Required.
	Pods PodSource
	// Evictor requests evictions. Required.
	Evictor Evictor
	// Deleter deletes Pods if a rule or a policy asks for it. If it is nil, such Pods block with [drain.ReasonUnsupported].
	Deleter Deleter
	// Budgets reads PodDisruptionBudgets from a cache: every Step lists those in the Namespaces of the Pods of its Node. If it is nil, only
	// the answers of the API server count: each refused Pod is requested again after 15 s.
	Budgets client.Reader
	// Informers is the cache behind Budgets. With it, a Step does not block while the cache is not synced, and a budget that changes wakes the
	// owners of waiting Nodes; without it, they look again after 15 s.
	Informers cache.Informers
	// Volumes: volumes are read through Informers, as [Runner.StepVolumes] requires.
	Volumes bool
	// Metrics are optional. The caller registers them.
	Metrics *Metrics

	// CallTimeout ends a single API call; 10 s.
	CallTimeout time.Duration
	// Debounce is how long events are collected before an owner is woken; 100 ms.
	Debounce time.Duration
	// Settle is how long a Node must have been seen cordoned before its drain can be Done, because the scheduler may bind one more Pod right
	// after the cordon; 2 s. Negative means none. It counts from the first Step of the process that was shown the cordon, while Pods leave.
	Settle time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker

	beside func(context.Context) error // runs while the Runner runs, such as the cache behind Budgets; may be nil
}

const (
	// maxInFlight is how many requests may be in flight: about a quarter of what priority and fairness of the API server allows one client.
	// A throttled Runner halves it, and increases it by one with every success.
	maxInFlight = 64
	// maxInFlightPerNode is how many of them may belong to one Node.
	maxInFlightPerNode = 32
	// maxInFlightPerBudget is how many of them may belong to one budget. More of them conflict in the API server.
	maxInFlightPerBudget = 4
	// probeInterval is how long no request is sent for a closed budget that does not change.
	probeInterval = 15 * time.Second
)

// errNodeReplaced says that the Node in the API server has another UID than the Node that was passed.
var errNodeReplaced = errors.New("the node was replaced by another one of the same name")

// errStopped says that the context of the Runner has ended, for example because leadership was lost.
var errStopped = errors.New("the drain runner has stopped")

// errReleased says that a Node was released while it was read. It is not returned to callers.
var errReleased = errors.New("the node was released")

// errInvalidRequest marks errors about the arguments of Step.
var errInvalidRequest = errors.New("invalid request")

func (c *Config) complete() error {
	var errs []error
	require := func(missing bool, field string) {
		if missing {
			errs = append(errs, fmt.Errorf("%s is required", field))
		}
	}
	require(c.Nodes == nil, "Nodes")
	require(c.Pods == nil, "Pods")
	require(c.Evictor == nil, "Evictor")
	errs = append(errs,
		defaultTo(&c.CallTimeout, 10*time.Second, "CallTimeout"),
		defaultTo(&c.Debounce, 100*time.Millisecond, "Debounce"),
	)
	if c.Settle == 0 {
		c.Settle = 2 * time.Second
	}
	c.Settle = max(0, c.Settle)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Volumes && c.Informers == nil {
		errs = append(errs, errors.New("Volumes requires Informers")) //nolint:staticcheck // it begins with the name of a field
	}
	if c.Informers != nil && c.Budgets == nil && !c.Volumes {
		errs = append(errs, errors.New("Informers has no effect without Budgets and Volumes")) //nolint:staticcheck // as above
	}
	return errors.Join(errs...)
}

func defaultTo(field *time.Duration, value time.Duration, name string) error {
	if *field < 0 {
		return fmt.Errorf("%s must not be negative", name)
	}
	if *field == 0 {
		*field = value
	}
	return nil
}

// Wiring says which optional parts of a [Config] need rights. The zero value is a Runner that only evicts.
type Wiring struct {
	// Budgets: Config.Budgets reads through a cache.
	Budgets bool
	// Deleter: Config.Deleter is set.
	Deleter bool
	// Volumes: Config.Volumes is set.
	Volumes bool
}

// PolicyRules are the rights that a [Runner] needs in the cluster whose Nodes it drains:
//
//   - Nodes: patch, for the cordon; [Drain] needs get in addition;
//   - Pods: list and watch, for [NewScopedPodSource], and delete for a Deleter;
//   - pods/eviction: create;
//   - PodDisruptionBudgets, and for volumes VolumeAttachments and PersistentVolumes: list and watch.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	var rules []rbacv1.PolicyRule
	for _, choice := range []struct {
		made bool
		rule rbacv1.PolicyRule
	}{
		{true, rule("", "nodes", "patch")},
		{true, rule("", "pods", "list", "watch")},
		{true, rule("", "pods/eviction", "create")},
		{w.Budgets, rule("policy", "poddisruptionbudgets", "list", "watch")},
		{w.Deleter, rule("", "pods", "delete")},
		{w.Volumes, rule("", "persistentvolumes", "list", "watch")},
		{w.Volumes, rule("storage.k8s.io", "volumeattachments", "list", "watch")},
	} {
		if choice.made {
			rules = append(rules, choice.rule)
		}
	}
	return contract.MergePolicyRules(rules)
}
