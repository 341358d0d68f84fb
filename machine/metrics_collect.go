package machine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// deploymentSource is a cache of MachineDeployments.
type deploymentSource struct {
	informer cache.Informer
	kind     contract.MachineDeploymentKind
	each     func(do func(client.Object)) error
}

// errNotCounted is returned while a cache is not complete: unread objects may exist, so nothing is reported.
var errNotCounted = errors.New("the cache is not synced")

// machineCount counts the Machines of a Reconciler.
type machineCount func(byPhase, byProvider map[string]int) error

// activate counts the Machines of a Reconciler until the returned function is called. The end of ctx does not matter.
func (m *Metrics) activate(ctx context.Context, r *Reconciler) (end func()) {
	ctx = context.WithoutCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active[r] = func(byPhase, byProvider map[string]int) error { return m.countMachines(ctx, r, byPhase, byProvider) }
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.active, r)
	}
}

// collectCounts reports the counts of objects in caches. A replica that waits for leadership reports none, so that sums over replicas are
// right, and neither does one whose caches are not complete.
func (m *Metrics) collectCounts(to chan<- prometheus.Metric) {
	m.mu.Lock()
	active, deployments := slices.Collect(maps.Values(m.active)), slices.Clone(m.deployments)
	m.mu.Unlock()
	if len(active) == 0 {
		return
	}
	byPhase, byProvider := map[string]int{}, map[string]int{}
	var err error
	for _, count := range active {
		err = errors.Join(err, count(byPhase, byProvider))
	}
	if err == nil {
		gauges(to, m.phases, m.phaseNames.sum(byPhase))
		gauges(to, m.machines, m.providerNames.sum(byProvider))
	}
	if len(deployments) == 0 {
		return
	}
	if byState, err := countReplicas(deployments); err == nil {
		gauges(to, m.replicas, byState)
	}
}

func gauges(to chan<- prometheus.Metric, desc *prometheus.Desc, values map[string]int) {
	for label, value := range values {
		metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, float64(value), label)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		to <- metric
	}
}

// sum adds up counts under the values that a label can have. A value that was reported once stays, with zero.
func (l *labelValues) sum(counts map[string]int) map[string]int {
	sums := map[string]int{}
	for _, value := range slices.Sorted(maps.Keys(counts)) { // the values that are kept are the same in every process
		sums[l.admit(value)] += counts[value]
	}
	for _, value := range l.known() {
		sums[value] += 0
	}
	return sums
}

// countMachines reads every Machine in the cache of a Reconciler, without copying it.
func (m *Metrics) countMachines(ctx context.Context, r *Reconciler, byPhase, byProvider map[string]int) error {
	informer, err := r.ports.Cache.GetInformer(ctx, r.newObject(), cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return errors.Join(err, errNotCounted)
	}
	var state contract.MachineState
	return eachInCache(ctx, r.ports.Cache, informer, r.kind, func(obj client.Object) {
		if !r.matchesWatchFilter(obj) {
			return
		}
		if r.kind.Adapter.Read(obj, &state) != nil {
			state = contract.MachineState{} // a failed read may leave any content
			byPhase[labelUnreadable]++
			byProvider[labelUnreadable]++
			return
		}
		byPhase[state.Phase]++
		byProvider[m.provider(&state)]++
	})
}

// countReplicas adds up the replicas of all MachineDeployments. An absent number counts as zero.
func countReplicas(sources []deploymentSource) (map[string]int, error) {
	desired, actual, ready, available := 0, 0, 0, 0
	for _, source := range sources {
		if !source.informer.HasSynced() {
			return nil, errNotCounted
		}
		var state contract.MachineDeploymentState
		err := source.each(func(obj client.Object) {
			if source.kind.Adapter.Read(obj, &state) != nil {
				state = contract.MachineDeploymentState{} // a failed read may leave any content
				return
			}
			desired += int(state.Replicas.Or(0))
			actual += int(state.ObservedReplicas.Or(0))
			ready += int(state.ReadyReplicas.Or(0))
			available += int(state.AvailableReplicas.Or(0))
		})
		if err != nil {
			return nil, err
		}
	}
	return map[string]int{"desired": desired, "actual": actual, "ready": ready, "available": available}, nil
}

// eachInCache passes every object of a kind to a function, as a view. Lists of Go types contain structs, which even a list without deep
// copies would copy: so it uses the informer's own store, and lists only in a cache of several namespaces, which has several stores.
func eachInCache[S, U any](
	ctx context.Context, c cache.Cache, informer cache.Informer, kind contract.KindOf[S, U], do func(client.Object),
) error {
	if one, ok := informer.(interface{ GetStore() toolscache.Store }); ok {
		for _, item := range one.GetStore().List() {
			if obj, ok := item.(client.Object); ok {
				do(obj)
			}
		}
		return nil
	}
	list, ok := kind.NewList().(client.ObjectList)
	if !ok {
		return errNotCounted
	}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	return eachObject(list, do)
}
