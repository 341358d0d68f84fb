package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/machine/provider"
)

// DefaultCollectorPeriod is the time between two passes. Flag --machine-safety-orphan-vms-period.
const DefaultCollectorPeriod = 15 * time.Minute

// Events about instances without a Machine.
const (
	EventOrphanFound      = "OrphanInstanceFound"      // an instance has no Machine
	EventOrphanDeleted    = "OrphanInstanceDeleted"    // an instance without a Machine was deleted
	EventOrphanNotDeleted = "OrphanInstanceNotDeleted" // an instance without a Machine could not be deleted
	actionCollect         = "CollectOrphans"
)

// CollectorOptions configure a Collector. Sources and Calls are required.
type CollectorOptions struct {
	// Sources return all possible owners of instances: always the Machines, and the InfraMachines if a Driver is behind those.
	Sources []Source

	// Calls are the calls of the Driver whose instances are listed; List and Delete are used.
	Calls provider.Calls
	// RequestOf returns the Request for a cluster, with Account and Credentials. Default: the name of the cluster. After an error the cluster
	// is skipped.
	RequestOf func(ctx context.Context, cluster types.NamespacedName) (provider.Request, error)
	// Reconciles reports whether this program reconciles the Machines of a cluster. Instances of other clusters are ignored, and no connection
	// to them is made. Nil: it reconciles all.
	Reconciles func(cluster types.NamespacedName) bool
	// Delete deletes orphans, within Limits. By default they are only reported.
	Delete bool
	Limits OrphanLimits

	// Period is the time between two passes, or less while an account waits for its turn. Default DefaultCollectorPeriod.
	Period time.Duration
	// Gate prevents decisions while an API server is frozen, and for Limits.StartDelay afterwards; nil does not.
	Gate *Gate
	// Recorder records events on the result of EventsOn for a cluster, such as its Cluster; without both there are no events.
	Recorder events.EventRecorder
	EventsOn func(cluster types.NamespacedName) *corev1.ObjectReference
	// Metrics count the orphans; nil counts nothing.
	Metrics *Metrics
	// Clock is the time of passes. Default: the real clock.
	Clock clock.Clock
}

// Collector finds instances without a Machine, and deletes them with CollectorOptions.Delete. It is a manager.Runnable that needs leader
// election. Safe for concurrent use.
type Collector struct {
	options CollectorOptions

	mu      sync.Mutex
	started time.Time
	seen    map[instanceKey]sighting
	listed  map[string]time.Time // when the instances of a cluster were last listed
}

// NewCollector returns a Collector. It makes no request.
func NewCollector(o CollectorOptions) (*Collector, error) {
	var errs []error
	if len(o.Sources) == 0 {
		errs = append(errs, errors.New("CollectorOptions.Sources is empty: every instance would be an orphan"))
	}
	if o.Calls.List == nil || o.Calls.Delete == nil {
		errs = append(errs, fmt.Errorf("driver %s cannot list its instances, so that no orphan is found: implement provider.Lister",
			o.Calls.Name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o.Period = cmp.Or(max(o.Period, 0), DefaultCollectorPeriod)
	if o.RequestOf == nil {
		o.RequestOf = func(_ context.Context, cluster types.NamespacedName) (provider.Request, error) {
			return provider.Request{Cluster: cluster.Name}, nil
		}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Collector{options: o, started: o.Clock.Now(), listed: map[string]time.Time{}}, nil
}

// Start makes passes until the context ends. Earlier sightings do not count, because another process may have led since.
func (c *Collector) Start(ctx context.Context) error {
	c.mu.Lock()
	c.started, c.seen = c.options.Clock.Now(), nil
	c.mu.Unlock()
	for {
		timer := c.options.Clock.NewTimer(c.log(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// log makes a pass, logs its result, and returns when the next one is due.
func (c *Collector) log(ctx context.Context) time.Duration {
	log := ctrllog.FromContext(ctx).WithName("orphans")
	r, err := c.Pass(ctx)
	if err != nil && ctx.Err() == nil {
		log.Error(err, "look for instances without a Machine")
	}
	for _, o := range r.Orphans {
		log.Info("an instance has no Machine", "instance", o.ProviderID, "cluster", o.Cluster, "dryRun", r.DryRun, "deleted", o.Deleted,
			"waits", o.Waits)
	}
	for cluster, why := range r.Blocked {
		log.Info("nothing is confirmed", "cluster", cluster, "because", why)
	}
	return r.next
}

// Report is the result of one pass.
type Report struct {
	// DryRun: no instance is deleted.
	DryRun  bool     `json:"dryRun"`
	Orphans []Orphan `json:"orphans"`
	// Blocked is why nothing was confirmed, by cluster as namespace/name; the empty name means all clusters.
	Blocked map[string]string `json:"blocked,omitempty"`

	next time.Duration // until the next pass is due
}

// Pass makes one pass: it lists the instances, then reads the Machines from the API server, decides with planOrphans, and deletes what is
// due. The error joins failed reads, lists and deletions; otherwise the report is complete.
func (c *Collector) Pass(ctx context.Context) (Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	facts, next, errs := c.observe(ctx)
	plan := planOrphans(facts)
	report := Report{DryRun: !c.options.Delete, Blocked: plan.Blocked, Orphans: append([]Orphan{}, plan.Orphans...), next: next}
	for i := range report.Orphans {
		o := &report.Orphans[i]
		if _, before := c.seen[o.key()]; !before && o.Confirmations > 0 {
			c.event(o.Instance, corev1.EventTypeWarning, EventOrphanFound, "Instance %s has no Machine", o.ProviderID)
		}
		if c.options.Delete && slices.Contains(plan.Delete, o.Instance) {
			var err error
			o.Deleted, err = c.remove(ctx, o.Instance)
			errs = append(errs, err)
		}
	}
	c.seen = plan.Seen
	err := errors.Join(errs...)
	c.options.Metrics.looked(c.options.Calls.Name, report, err)
	return report, err
}

// observe lists the instances of the clusters that have Machines, and then reads the Machines, so that a Machine created meanwhile counts.
func (c *Collector) observe(ctx context.Context) (facts orphanFacts, next time.Duration, errs []error) {
	reach := c.options.Gate.of(types.NamespacedName{})
	facts = orphanFacts{
		Unlisted: map[string]string{}, Frozen: reach.silent(), Started: later(reach.thawedAt, c.started), Seen: c.seen,
		Limits: c.options.Limits,
	}
	next = c.options.Period
	before, err := read(ctx, c.options.Sources)
	if err == nil {
		next, errs = c.list(ctx, before, &facts)
		before, err = read(ctx, c.options.Sources)
	}
	facts.Owners, facts.Unread, facts.Now = before, err != nil, c.options.Clock.Now()
	return facts, next, append(errs, err)
}

// list lists the instances of all clusters, those listed longest ago first, because the rate may not be enough for all. Delayed clusters
// come first in the next pass, which is due at the turn of an account if a cluster was not listed for a whole Period, but not before a
// fifteenth of the Period, because each pass reads all Machines.
func (c *Collector) list(ctx context.Context, owners []Owner, into *orphanFacts) (next time.Duration, errs []error) {
	listed, now := map[string]time.Time{}, c.options.Clock.Now()
	for i := range owners {
		listed[owners[i].Cluster] = c.listed[owners[i].Cluster]
	}
	c.listed, next = listed, c.options.Period
	clusters := slices.SortedFunc(maps.Keys(listed), func(a, b string) int {
		return cmp.Or(listed[a].Compare(listed[b]), cmp.Compare(a, b))
	})
	for _, name := range clusters {
		if c.options.Reconciles != nil && !c.options.Reconciles(keyOf(name)) {
			continue // without its instances in the facts, nothing is decided about them
		}
		if c.options.Gate.of(keyOf(name)).frozen {
			into.Unlisted[name] = "its API server does not answer"
			continue
		}
		r, err := c.options.RequestOf(ctx, keyOf(name))
		var all []provider.Instance
		if err == nil {
			all, err = c.options.Calls.List(ctx, r)
		}
		switch {
		case provider.ClassOf(err) == provider.RateLimited:
			into.Unlisted[name] = "its account has to wait: " + err.Error()
			if wait := provider.DefaultBackoff().After(err, 1, 0); now.Sub(listed[name]) >= c.options.Period {
				next = min(next, max(wait, c.options.Period/15))
			}
			continue
		case err != nil:
			into.Unlisted[name] = "its instances could not be listed to the end"
			errs = append(errs, fmt.Errorf("list the instances of cluster %s: %w", name, err))
			continue
		}
		listed[name] = now
		for i := range all {
			into.Instances = append(into.Instances, Instance{
				Cluster: name, Token: all[i].Token, ProviderID: all[i].ProviderID, Name: all[i].Name, Leaving: all[i].State == provider.Deleting,
			})
		}
	}
	return next, errs
}

// keyOf returns the name of a cluster of a Source.
func keyOf(cluster string) types.NamespacedName {
	namespace, name, _ := strings.Cut(cluster, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// remove requests the deletion of an instance, and does not wait for its end. A delayed request waits for the next pass.
func (c *Collector) remove(ctx context.Context, i Instance) (asked bool, err error) {
	r, err := c.options.RequestOf(ctx, keyOf(i.Cluster))
	if err == nil {
		r.Token, r.ProviderID, r.Name = i.Token, i.ProviderID, i.Name
		_, err = c.options.Calls.Delete(ctx, r)
	}
	if provider.ClassOf(err) == provider.RateLimited {
		return false, nil
	}
	if err != nil {
		c.event(i, corev1.EventTypeWarning, EventOrphanNotDeleted, "Instance %s has no Machine and could not be deleted: %v", i.ProviderID, err)
		return false, fmt.Errorf("delete instance %s of cluster %s: %w", i.ProviderID, i.Cluster, err)
	}
	c.event(i, corev1.EventTypeNormal, EventOrphanDeleted, "Deleted instance %s, which had no Machine", i.ProviderID)
	return true, nil
}

// event records an event on the cluster of an instance.
func (c *Collector) event(i Instance, kind, reason, note string, args ...any) {
	if c.options.Recorder == nil || c.options.EventsOn == nil {
		return
	}
	if on := c.options.EventsOn(keyOf(i.Cluster)); on != nil {
		c.options.Recorder.Eventf(on, nil, kind, reason, actionCollect, note, args...)
	}
}
