package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	// nextTemplate is the name of the templates that a rollout goes to.
	nextTemplate = "bench-next"
	// deployments is how many MachineDeployments a fleet has, one of which is rolled out.
	deployments = 10
)

// set measures one MachineSet that is scaled up and down.
func set() kind {
	return kind{
		name: "set", about: "a MachineSet scaled from 0 to --size and back, at Cluster API's client limits.",
		arms: managers(), cases: []string{""}, size: 300, max: 5000,
		columns: []measure.Column{
			{Figure: "writes/machine"}, {Figure: "cpu", Unit: "s"}, {Figure: "up s", Unit: "s"}, {Figure: "down s", Unit: "s"},
		},
		prepare: prepareSets,
		one: func(ctx context.Context, l *lab, run *measure.Run) error {
			t := l.newTrial(run)
			one := t.owner("MachineSet", t.name, "")
			n := int64(t.size)
			err := t.takeOwners(ctx, nil, one, t.scaled("up", n, one...), t.scaled("down", 0, one...))
			t.Figures["writes/machine"] = t.Figures.Sum("writes", "up", "down") / float64(n)
			return err
		},
	}
}

// rollout measures one MachineDeployment that is rolled out, too.
func rollout() kind {
	k := set()
	k.name = "rollout"
	k.about = "a MachineDeployment scaled to --size, rolled out with a maxSurge of 10%, and scaled to 0, at Cluster API's client limits."
	k.size = 200
	k.columns = append(k.columns, measure.Column{Figure: "roll s", Unit: "s"}, measure.Column{Figure: "roll-writes/machine"})
	k.one = func(ctx context.Context, l *lab, run *measure.Run) error {
		t := l.newTrial(run)
		one := t.owner("MachineDeployment", t.name, "")
		n := int64(t.size)
		err := t.takeOwners(ctx, nil, one, t.scaled("up", n, one...), t.roll(n, one[0]),
			t.scaled("down", 0, one...))
		t.Figures["writes/machine"] = t.Figures.Sum("writes", "up", "roll", "down") / float64(n)
		t.Figures["roll-writes/machine"] = t.Figures["roll writes"] / float64(n)
		return err
	}
	return k
}

// fleet measures what a Machine costs a manager of many.
func fleet() kind {
	return kind{
		name: "fleet",
		about: `ten MachineDeployments without client limits, with 100 workers for both. All are scaled up to --size Machines in all, one is
rolled out, and one is scaled to 0. Heap is what is live in the manager after the first step, without what was live before it.

With --managers, the deployments are divided among that many managers of ours, with a namespace for each, and CPU and heap are those of all
together. With --floor, a program beside each manager watches the same and makes the same requests, without deciding anything; its writes
go to a server that sends what the API server has answered the manager. No manager that makes these requests costs less CPU.`,
		arms: managers(), cases: []string{""}, size: 500, max: 5000,
		columns: []measure.Column{
			{Figure: "heap/machine", Unit: "KiB"}, {Figure: "cpu/machine", Unit: "ms"}, {Figure: "requests/machine"},
			{Figure: "roll-cpu/replaced", Unit: "ms"}, {Figure: "roll-requests/replaced"}, {Figure: "deletion-writes/machine"},
			{Figure: "deletion-reads/machine"}, {Figure: "up s", Unit: "s"}, {Figure: "roll s", Unit: "s"},
		},
		flags: func(flags *flag.FlagSet, o *options) {
			flags.IntVar(&o.managers, "managers", 1, "how many managers of ours share the fleet")
			flags.IntVar(&o.workers, "workers", 100, "--worker-count of a manager of ours")
			flags.BoolVar(&o.floor, "floor", false, "run a program beside each manager that makes the same requests and decides nothing")
		},
		check: options.checkFleet,
		plane: func(o options, plane *cluster.Options) {
			if o.floor {
				plane.AuditObjects, plane.AuditManagedFields = written(), true
			}
		},
		prepare: prepareSets, one: oneFleet,
	}
}

func (o options) checkFleet() error {
	switch {
	case o.managers < 1 || o.managers > deployments || o.workers < 1:
		return fmt.Errorf("--managers must be 1 to %d, and --workers at least 1", deployments)
	case o.managers > 1 && (o.floor || len(o.arms) != 1 || o.arms[0] != arm.Ours):
		return errors.New("--managers: choose --arms ours, and not --floor")
	case o.floor && o.size > 1000:
		return errors.New("--floor: give a --size of 1000 at most, because the audit log then has the bodies of all writes")
	case o.size%deployments != 0:
		return fmt.Errorf("--size %d: there are %d MachineDeployments of one size, so give a multiple of that", o.size, deployments)
	}
	return nil
}

func oneFleet(ctx context.Context, l *lab, run *measure.Run) error {
	t := l.newTrial(run)
	var all []*unstructured.Unstructured
	for i := range deployments {
		all = append(all, t.owner("MachineDeployment", fmt.Sprintf("%s-%d", t.name, i), namespaceOf(i%t.managers))...)
	}
	each := int64(t.size / deployments)
	err := t.takeOwners(ctx, []string{fmt.Sprintf("--worker-count=%d", t.workers)}, all,
		t.heap("empty"), t.scaled("up", each, all...), t.heap("full"), t.roll(each, all[0]), t.scaled("down", 0, all[0]), t.scaled("", 0, all...))
	n, f := float64(t.size), t.Figures
	f["heap/machine"], f["cpu/machine"] = (f["heap full"]-f["heap empty"])/n, 1000*f["up cpu"]/n
	f["requests/machine"] = (f["up writes"] + f["up reads"]) / n
	replaced := float64(each)
	f["roll-cpu/replaced"], f["roll-requests/replaced"] = 1000*f["roll cpu"]/replaced, (f["roll writes"]+f["roll reads"])/replaced
	f["deletion-writes/machine"], f["deletion-reads/machine"] = f["down writes"]/replaced, f["down reads"]/replaced
	return err
}

// namespaceOf is the namespace of a manager.
func namespaceOf(manager int) string {
	if manager == 0 {
		return metav1.NamespaceDefault
	}
	return fmt.Sprintf("%s-%d", clusterName, manager)
}

// prepareSets brings CRDs, the Cluster and templates to the namespace of each manager, and starts the provider.
func prepareSets(ctx context.Context, l *lab) error {
	for i := range l.managers {
		if i > 0 {
			if err := l.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}); err != nil {
				return err
			}
		}
		if err := errors.Join(l.install(ctx, namespaceOf(i), l.kind.name == "health"), l.templates(ctx, namespaceOf(i))); err != nil {
			return err
		}
	}
	return l.startProvider(ctx, nil)
}

func (l *lab) templates(ctx context.Context, namespace string) error {
	for _, gvk := range []schema.GroupVersionKind{fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)} {
		template := gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix)
		if err := cluster.InstallCRDs(ctx, l.plane.Config(), fake.CRD(template, contract.V1Beta2)); err != nil {
			return err
		}
		for _, name := range []string{clusterName, nextTemplate} {
			obj := &unstructured.Unstructured{Object: map[string]any{
				"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"size": "large"}}},
			}}
			obj.SetGroupVersionKind(template)
			obj.SetNamespace(namespace)
			obj.SetName(name)
			if err := l.client.Create(ctx, obj); err != nil {
				return err
			}
		}
	}
	return nil
}

// owner returns a set, or a deployment, without Machines.
func (t *trial) owner(kind, name, namespace string) []*unstructured.Unstructured {
	ref := func(gvk schema.GroupVersionKind) map[string]any {
		return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind + contract.TemplateSuffix, "name": clusterName}
	}
	labels := map[string]any{poolLabel: name, contract.ClusterNameLabel: clusterName}
	spec := map[string]any{
		"clusterName": clusterName, "replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"clusterName": clusterName, "infrastructureRef": ref(fake.InfraMachineGVK(contract.V1Beta2)),
				"bootstrap": map[string]any{"configRef": ref(fake.BootstrapConfigGVK(contract.V1Beta2))},
			},
		},
	}
	if kind == "MachineDeployment" { // without webhooks there are no defaults
		spec["rollout"] = map[string]any{"strategy": map[string]any{
			"type": contract.RolloutRolling, "rollingUpdate": map[string]any{"maxSurge": "10%", "maxUnavailable": int64(0)},
		}}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	obj.SetKind(kind)
	obj.SetNamespace(namespaceOf(0))
	if namespace != "" {
		obj.SetNamespace(namespace)
	}
	obj.SetName(name)
	return []*unstructured.Unstructured{obj}
}

// takeOwners creates sets or deployments, takes steps, and removes them. Cluster API's manager reconciles all kinds anyway, so the flags
// are ours.
func (t *trial) takeOwners(ctx context.Context, ours []string, all []*unstructured.Unstructured, steps ...step) error {
	for _, obj := range all {
		if err := t.client.Create(ctx, obj); err != nil {
			return err
		}
		steps = append(steps, t.remove(obj))
	}
	var flags [][]string
	for i := range t.managers {
		own := arm.DefaultLimits(t.Arm)
		if t.kind.name == "fleet" {
			own = arm.NoLimits(t.Arm)
		}
		if t.Arm == arm.Ours {
			own = append(append(own, "--machinesets", "--machinedeployments"), ours...)
		}
		if t.managers > 1 {
			own = append(own, "--namespace="+namespaceOf(i))
		}
		flags = append(flags, own)
	}
	return t.take(ctx, flags, steps)
}

// scaled scales objects.
func (t *trial) scaled(name string, n int64, objects ...*unstructured.Unstructured) step {
	return t.change(name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n), n, objects...)
}

// roll gives a deployment another template.
func (t *trial) roll(n int64, deployment *unstructured.Unstructured) step {
	return t.change("roll", fmt.Sprintf(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":%q}}}}}`, nextTemplate), n, deployment)
}

// change changes objects, until all is done by the status of each.
func (t *trial) change(name, change string, n int64, objects ...*unstructured.Unstructured) step {
	var changed []*unstructured.Unstructured
	return step{
		name: name,
		do: func(ctx context.Context) error {
			for _, obj := range objects {
				one := obj.DeepCopy()
				changed = append(changed, one)
				if err := t.client.Patch(ctx, one, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
					return err
				}
			}
			return nil
		},
		done: func(ctx context.Context) (bool, error) {
			for _, one := range changed {
				fresh := one.DeepCopy()
				if err := t.client.Get(ctx, client.ObjectKeyFromObject(one), fresh); err != nil {
					return false, err
				}
				if done, err := t.isDone(ctx, fresh, one.GetGeneration(), n); err != nil || !done {
					return false, err
				}
			}
			return true, nil
		},
	}
}

// remove deletes an object and waits until it is gone.
func (t *trial) remove(obj *unstructured.Unstructured) step {
	return step{
		do: func(ctx context.Context) error { return t.client.Delete(ctx, obj) },
		done: func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(t.client.Get(ctx, client.ObjectKeyFromObject(obj), obj.DeepCopy())), nil
		},
	}
}

func number(of *unstructured.Unstructured, fields ...string) int64 {
	value, found, _ := unstructured.NestedInt64(of.Object, fields...)
	if !found {
		return -1
	}
	return value
}

// isDone reports whether a status is that of a generation, and of n Machines that are all available, and, with a deployment, whether they
// are all those of the set with its template. How many are up to date means nothing right after a change.
func (t *trial) isDone(ctx context.Context, obj *unstructured.Unstructured, generation, n int64) (bool, error) {
	for _, field := range []string{"replicas", "readyReplicas", "availableReplicas"} {
		if number(obj, "status", field) != n {
			return false, nil
		}
	}
	if number(obj, "status", "observedGeneration") < generation || obj.GetKind() != "MachineDeployment" {
		return number(obj, "status", "observedGeneration") >= generation, nil
	}
	sets := &unstructured.UnstructuredList{}
	sets.SetGroupVersionKind(obj.GroupVersionKind().GroupVersion().WithKind("MachineSetList"))
	err := t.client.List(ctx, sets, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{contract.DeploymentNameLabel: obj.GetName()})
	template := []string{"spec", "template", "spec", "infrastructureRef", "name"}
	want, _, _ := unstructured.NestedString(obj.Object, template...)
	for i := range sets.Items {
		name, _, _ := unstructured.NestedString(sets.Items[i].Object, template...)
		if has := max(0, number(&sets.Items[i], "status", "replicas")); (name == want && has != n) || (name != want && has != 0) {
			return false, err
		}
	}
	return len(sets.Items) > 0, err
}
