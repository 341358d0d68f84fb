package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/machinist-dev/machinist/machineset/safety"
)

// DefaultCollectorPeriod is the time between two passes. Flag --machine-safety-orphan-vms-period.
const DefaultCollectorPeriod = 15 * time.Minute

// Events about instances without a Machine.
const (
	EventOrphanFound      = "OrphanInstanceFound"
	EventOrphanDeleted    = "OrphanInstanceDeleted"
	EventOrphanNotDeleted = "OrphanInstanceNotDeleted"
	actionCollect         = "CollectOrphans"
)

// CollectorOptions configure a Collector. Calls and Sources are required.
type CollectorOptions struct {
	// Calls are those of the Driver; List and Delete are used.
	Calls provider.Calls
	// Sources are all that instances may belong to: always the Machines, and the InfraMachines of a Driver behind such.
	Sources []Source
	// RequestOf returns what the Driver is asked for about a cluster, with Account and Credentials. Default: the name of the cluster. An
	// error leaves the cluster out.
	RequestOf func(ctx context.Context, cluster types.NamespacedName) (provider.Request, error)
	// Owns reports whether an instance may be this program's at all, for an account that several programs share. Nil: all that List returns.
	Owns func(provider.Instance) bool
	// Delete deletes orphans. By default they are only reported.
	Delete bool
	// Limits say when an orphan may be deleted, and Period is the time between two passes. Default DefaultCollectorPeriod.
	Limits safety.OrphanLimits
	Period time.Duration
	// Gate keeps anything from being decided while an API server is frozen, and for Limits.StartDelay afterwards; nil does not.
	Gate *Gate
	// Recorder records events about what EventsOn returns for a cluster, such as a reference to its Cluster; without both there are none.
	Recorder events.EventRecorder
	EventsOn func(cluster types.NamespacedName) *corev1.ObjectReference
	// Metrics count what was found; nil counts nothing.
	Metrics *Metrics
	// Clock is the time of passes. Default the real one. Start waits in real time.
	Clock clock.PassiveClock
}

// Collector finds instances without a Machine, and deletes them if it is told to. It is a manager.Runnable that needs leader election. Safe
// for concurrent use.
type Collector struct {
	options CollectorOptions

	mu      sync.Mutex
	started time.Time
	seen    map[safety.InstanceKey]safety.Sighting
}

// NewCollector returns a Collector. It makes no request.
func NewCollector(o CollectorOptions) (*Collector, error) {
	if o.Calls.List == nil || o.Calls.Delete == nil {
		return nil, fmt.Errorf("driver %s cannot list its instances, so that no orphan is found: implement provider.Lister", o.Calls.Name)
	}
	if len(o.Sources) == 0 {
		return nil, errors.New("CollectorOptions.Sources is empty: every instance would be an orphan")
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
	return &Collector{options: o, started: o.Clock.Now()}, nil
}

// Start makes passes until the context ends. What was seen before does not count: another process may have led since.
func (c *Collector) Start(ctx context.Context) error {
	c.mu.Lock()
	c.started, c.seen = c.options.Clock.Now(), nil
	c.mu.Unlock()
	log := ctrllog.FromContext(ctx).WithName("orphans")
	return every(ctx, c.options.Period, func() {
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
	})
}

// every calls a function now and then in intervals, until the context ends.
func every(ctx context.Context, period time.Duration, do func()) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Report is what one pass has found.
type Report struct {
	// DryRun: nothing is deleted.
	DryRun  bool             `json:"dryRun"`
	Orphans []ReportedOrphan `json:"orphans"`
	// Blocked is why nothing was confirmed, by cluster as namespace/name; the empty name is all of them.
	Blocked map[string]string `json:"blocked,omitempty"`
}

// ReportedOrphan is an instance without a Machine.
type ReportedOrphan struct {
	Cluster       string    `json:"cluster"`
	ProviderID    string    `json:"providerID"`
	Token         string    `json:"token"`
	Name          string    `json:"name,omitempty"`
	Since         time.Time `json:"since,omitzero"`
	Confirmations int       `json:"confirmations"`
	// Due: it is to be deleted, in a pass that deletes. Waits says otherwise why not yet. Deleted: the deletion was requested.
	Due     bool   `json:"due"`
	Waits   string `json:"waits,omitempty"`
	Deleted bool   `json:"deleted"`
}

// Pass makes one pass: it lists the instances, reads the Machines from the API server after that, decides with safety.PlanOrphans, and
// deletes what is due. The error is that of what could not be read, listed or deleted, joined; the report is complete otherwise.
func (c *Collector) Pass(ctx context.Context) (Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	facts, errs := c.observe(ctx)
	plan := safety.PlanOrphans(facts)
	report := Report{DryRun: !c.options.Delete, Blocked: plan.Blocked, Orphans: make([]ReportedOrphan, 0, len(plan.Orphans))}
	for _, o := range plan.Orphans {
		i := o.Instance
		one := ReportedOrphan{
			Cluster: i.Cluster, ProviderID: i.ProviderID, Token: i.Token, Name: i.Name, Since: o.Sighting.First,
			Confirmations: o.Sighting.Confirmations, Due: o.Due, Waits: o.Waits,
		}
		if _, before := c.seen[safety.InstanceKey{Cluster: i.Cluster, Token: i.Token}]; !before && one.Confirmations > 0 {
			c.event(i, corev1.EventTypeWarning, EventOrphanFound, "Instance %s has no Machine", i.ProviderID)
		}
		if c.options.Delete && slices.Contains(plan.Delete, i) {
			err := c.remove(ctx, i)
			one.Deleted = err == nil
			errs = append(errs, err)
		}
		report.Orphans = append(report.Orphans, one)
	}
	c.seen = plan.Seen
	err := errors.Join(errs...)
	c.options.Metrics.looked(c.options.Calls.Name, report, err)
	return report, err
}

// observe lists the instances of the clusters that have Machines, and then reads the Machines: one that was created meanwhile counts.
func (c *Collector) observe(ctx context.Context) (safety.OrphanFacts, []error) {
	reach := c.options.Gate.Of(types.NamespacedName{})
	facts := safety.OrphanFacts{
		Unlisted: map[string]string{}, Frozen: reach.IsFrozen() || !reach.Answered, Started: reach.Timer(c.started), Seen: c.seen,
		Limits: c.options.Limits,
	}
	before, err := read(ctx, c.options.Sources)
	var errs []error
	if err == nil {
		errs = c.list(ctx, before, &facts)
		facts.Owners, err = read(ctx, c.options.Sources)
	}
	facts.Unread, facts.Now = err != nil, c.options.Clock.Now()
	return facts, append(errs, err)
}

// list lists the instances of all clusters. Clusters that ask for the same are one.
func (c *Collector) list(ctx context.Context, owners []safety.Owner, into *safety.OrphanFacts) (errs []error) {
	clusters := make([]string, 0, len(owners))
	for _, o := range owners {
		clusters = append(clusters, o.Cluster)
	}
	slices.Sort(clusters)
	asked := map[string]bool{}
	for _, name := range slices.Compact(clusters) {
		key := keyOf(name)
		if reach := c.options.Gate.Of(key); reach.IsFrozen() {
			into.Unlisted[name] = "its API server does not answer"
			continue
		}
		r, err := c.options.RequestOf(ctx, key)
		if same := r.Cluster + "\x00" + r.Account; err == nil && asked[same] {
			continue
		} else {
			asked[same] = true
		}
		var all []provider.Instance
		if err == nil {
			all, err = c.options.Calls.List(ctx, r)
		}
		if err != nil {
			into.Unlisted[name] = "its instances could not be listed to the end"
			errs = append(errs, fmt.Errorf("list the instances of cluster %s: %w", name, err))
			continue
		}
		for i := range all {
			if c.options.Owns == nil || c.options.Owns(all[i]) {
				into.Instances = append(into.Instances, safety.Instance{
					Cluster: name, Token: all[i].Token, ProviderID: all[i].ProviderID, Name: all[i].Name, Leaving: all[i].State == provider.Deleting,
				})
			}
		}
	}
	return errs
}

// keyOf is the name of a cluster of a Source.
func keyOf(cluster string) types.NamespacedName {
	namespace, name, _ := strings.Cut(cluster, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// remove has the Driver delete an instance. It does not wait until that is done.
func (c *Collector) remove(ctx context.Context, i safety.Instance) error {
	r, err := c.options.RequestOf(ctx, keyOf(i.Cluster))
	if err == nil {
		r.Token, r.ProviderID, r.Name = i.Token, i.ProviderID, i.Name
		_, err = c.options.Calls.Delete(ctx, r)
	}
	c.options.Metrics.deleted(c.options.Calls.Name, err)
	if err != nil {
		c.event(i, corev1.EventTypeWarning, EventOrphanNotDeleted, "Instance %s has no Machine and could not be deleted: %v", i.ProviderID, err)
		return fmt.Errorf("delete instance %s of cluster %s: %w", i.ProviderID, i.Cluster, err)
	}
	c.event(i, corev1.EventTypeNormal, EventOrphanDeleted, "Deleted instance %s, which had no Machine", i.ProviderID)
	return nil
}

// event records an event on the cluster of an instance.
func (c *Collector) event(i safety.Instance, kind, reason, note string, args ...any) {
	if c.options.Recorder == nil || c.options.EventsOn == nil {
		return
	}
	if on := c.options.EventsOn(keyOf(i.Cluster)); on != nil {
		c.options.Recorder.Eventf(on, nil, kind, reason, actionCollect, note, args...)
	}
}
