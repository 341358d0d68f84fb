package machine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// drainRuleGVK is the kind of MachineDrainRules, unless the Machines are of another version of Cluster API.
var drainRuleGVK = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDrainRule"}

// DrainRulesOptions change what MachineDrainRules returns. The zero value decides as Cluster API does.
type DrainRulesOptions struct {
	// Rules joins the MachineDrainRules of one Machine with other rules, such as those of drain.KubectlRules or of a filter of package
	// drain/kubectl. namespaces is nil if no MachineDrainRule selects namespaces by labels. Default: drain.ClusterAPIRules.
	Rules func(ofMachine *drain.MachineDrainRules, namespaces drain.NamespaceLabels) []drain.Rule
}

// MachineDrainRules returns a Policy.DrainRules that applies the MachineDrainRules of cluster.x-k8s.io in the Machine's namespace: the
// first one by name that selects both the Machine and the pod decides (see drain.MachineDrainRules). It reads them from the Reconciler's
// cache, in v1beta2 or in the version of Cluster API's Machines that are reconciled, watches them, and makes no request in a pass. Without
// their CRD there are no rules; a CRD that is installed later is noticed.
//
// Cluster selectors are matched against the result of Ports.ClusterOf, and namespace selectors against the labels that the Drainer reports.
// The Drainer must have the method NamespaceLabels of a runner.ClusterRunner if a rule has a namespace selector. A pod that an invalid
// rule may select, or whose labels were not read, is not evicted: the drain waits, and its message names the rule. While the rules are
// not listed yet, the error matches cluster.ErrNotSynced.
func MachineDrainRules(o DrainRulesOptions) func(context.Context, *Scope) ([]drain.Rule, error) {
	if o.Rules == nil {
		o.Rules = drain.ClusterAPIRules
	}
	return func(ctx context.Context, s *Scope) ([]drain.Rule, error) {
		read, err := s.readDrainRules(ctx)
		if err != nil {
			return nil, fmt.Errorf("read MachineDrainRules: %w", err)
		}
		var namespaces drain.NamespaceLabels
		if read.NeedNamespaces() {
			if namespaces, err = s.Workload.NamespaceLabels(ctx); err != nil {
				return nil, err
			}
		}
		return o.Rules(read.For(s.drainedMachine()), namespaces), nil
	}
}

// drainedMachine returns the Machine as drain rules see it. Without Ports.ClusterOf, the Cluster is unread.
func (s *Scope) drainedMachine() drain.DrainedMachine {
	m := drain.DrainedMachine{Namespace: s.State.Key.Namespace, Labels: s.State.Labels}
	switch {
	case s.Cluster.Presence == external.Present:
		m.ClusterLabels = s.Cluster.State.Labels
	case s.State.ClusterName != "" && s.Cluster.Presence != external.Absent:
		m.ClusterUnread = true
	}
	return m
}

// readDrainRules reads the rules of the Machine's namespace, the invalid ones too.
func (s *Scope) readDrainRules(ctx context.Context) (*drain.MachineDrainRules, error) {
	gvk := s.env.drainRuleGVK()
	served, err := s.env.watchDrainRules(ctx, gvk, s.State.Key)
	if err != nil || !served {
		return drain.NewMachineDrainRules(nil), err
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(gvk)
	err = s.env.ports.Cache.List(ctx, &list, client.InNamespace(s.State.Key.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	rules := make([]drain.MachineDrainRule, 0, len(list.Items))
	for i := range list.Items {
		rule, _ := drain.ReadMachineDrainRule(&list.Items[i]) // a field that could not be read is in the rule, which then blocks its pods
		rules = append(rules, rule)
	}
	return drain.NewMachineDrainRules(rules), nil
}

// watchDrainRules makes sure that rules are watched, and reports whether their CRD exists.
func (r *Reconciler) watchDrainRules(ctx context.Context, gvk schema.GroupVersionKind, machine types.NamespacedName) (bool, error) {
	synced, err := r.frame.Tracker.Ensure(ctx, external.CRDMetadata(), machine)
	switch {
	case err != nil:
		return false, fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	case !synced:
		return false, notListed(external.CRDGVK())
	}
	err = r.ports.Cache.Get(ctx, types.NamespacedName{Name: contract.CRDName(gvk.GroupKind())}, external.CRDMetadata())
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(gvk)
	synced, err = r.frame.Tracker.Ensure(ctx, kind, machine)
	switch {
	case meta.IsNoMatchError(err):
		return false, fmt.Errorf("%w: they exist and are not served in version %s: serve it", err, gvk.Version)
	case err != nil:
		return false, err
	case !synced:
		return false, notListed(gvk)
	}
	return true, nil
}

func notListed(gvk schema.GroupVersionKind) error {
	return fmt.Errorf("%w: %s; if this lasts, look for missing list and watch permissions", cluster.ErrNotSynced, gvk.GroupKind())
}

// drainRuleGVK is the kind of the rules for the Machines of this Reconciler.
func (r *Reconciler) drainRuleGVK() schema.GroupVersionKind {
	gvk := drainRuleGVK
	if r.kind.GVK.Group == gvk.Group {
		gvk.Version = r.kind.GVK.Version
	}
	return gvk
}
