//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	poolAgent  = "machinist-pools"
	poolSize   = 200
	poolShrunk = 50
	// poolPods run on the pool, and poolBudget is how many of them may be away at a time.
	poolPods, poolBudget = 60, 6
)

// TestE2EAPoolOf200ScalesUpAndDownBehindBudgets scales a pool 0 -> 200 -> 50 -> 0 with a provider that reorders its list, repeats an ID
// and goes in steps, and looks at every status that the API server has seen.
func TestE2EAPoolOf200ScalesUpAndDownBehindBudgets(t *testing.T) {
	p := newPoolScene(t, fake.PoolInfrastructure{Disorder: 5, Batch: 10, RequestDrain: true})
	p.startPools()
	pool := p.pool(0)
	p.reaches(pool, 0)
	p.deploy()
	seen := p.observe()

	mark := p.mark()
	p.scale(pool, poolSize)
	p.reaches(pool, poolSize)
	patches := map[string]int{}
	for _, e := range p.sent(mark).Writes().To("", "nodes") {
		patches[e.Verb+" "+e.Name]++
	}
	for i := range poolSize {
		if n := patches[fmt.Sprintf("patch pool-%d", i)]; n != 1 {
			t.Errorf("Node pool-%d joined: want one PATCH, got %d", i, n)
		}
	}
	require.Len(t, patches, poolSize)
	statuses := len(p.sent(mark).Writes().To("cluster.x-k8s.io", "machinepools"))
	t.Logf("%d Nodes joined with one PATCH each, and %d writes of the pool", poolSize, statuses)
	p.podsRun(poolPods)
	p.rests()

	seen.guard(true)
	mark = p.mark()
	p.scale(pool, poolShrunk)
	p.reaches(pool, poolShrunk)
	p.nodesAre(poolShrunk)
	p.podsRun(poolPods)
	evicted := len(p.sent(mark).Where(func(e cluster.AuditEvent) bool { return e.Subresource == "eviction" }))
	t.Logf("%d Nodes left: %d evictions, %d writes of Nodes", poolSize-poolShrunk, evicted, len(p.sent(mark).Writes().To("", "nodes")))
	seen.guard(false)
	if evicted == 0 {
		t.Error("nothing was evicted: the instances that left had no pods, or lost them")
	}
	p.rests()

	p.letGo() // the last instances cannot go while a budget keeps pods on them
	p.scale(pool, 0)
	p.reaches(pool, 0)
	p.nodesAre(0)
	p.eventually("the watches to tell all", seen.behind)
	seen.areRight()

	require.NoError(t, p.client.Delete(t.Context(), pool))
	p.gone(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"), fake.BootstrapConfig(contract.V1Beta2, "pool"))
	p.nodesAre(0)
}

// TestE2ETheMachinesOfAPoolAreLedOneByOne runs examples/manager with a provider that makes an InfraMachine for every instance: package
// machine reconciles the Machines that the pool makes, so that each Node is drained before its instance goes.
func TestE2ETheMachinesOfAPoolAreLedOneByOne(t *testing.T) {
	p := newPoolScene(t, fake.PoolInfrastructure{Machines: true})
	p.startManager([]string{"--machinepools"})
	pool := p.pool(4)
	p.reaches(pool, 4)
	p.deploy() // onto all Nodes: before, all pods would go to those that are labelled first
	p.podsRun(poolPods)
	for i := range 4 {
		machine := fake.Machine(fmt.Sprintf("pool-%d", i))
		if fresh := p.ready(machine); fresh.GetLabels()[contract.PoolNameLabel] != "pool" {
			t.Errorf("Machine %s has labels %v", fresh.GetName(), fresh.GetLabels())
		}
	}
	mark := p.mark()
	p.scale(pool, 2)
	p.reaches(pool, 2)
	p.gone(fake.Machine("pool-0"), fake.Machine("pool-1"), fake.InfraMachine(contract.V1Beta2, "pool-0"))
	p.nodesAre(2)
	p.podsRun(poolPods)
	events, err := p.plane.Audit().Since(mark)
	require.NoError(t, err)
	evictions := events.From(managerAgent).Where(func(e cluster.AuditEvent) bool { return e.Subresource == "eviction" })
	if len(evictions) < poolPods/4 {
		t.Errorf("half of the Nodes went: want their pods to be evicted, got %d evictions", len(evictions))
	}
	p.letGo()
	require.NoError(t, p.client.Delete(t.Context(), pool))
	p.gone(pool, fake.Machine("pool-2"), fake.Machine("pool-3"), fake.InfraMachinePool(contract.V1Beta2, "pool"))
	p.nodesAre(0)
}

// poolScene is a control plane with Cluster API's MachinePools, a provider and the reconciler under test.
type poolScene struct {
	*world
	live client.WithWatch
}

func newPoolScene(t *testing.T, provider fake.PoolInfrastructure) *poolScene {
	t.Helper()
	w := newBareWorld(t, shared(t))
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta2", "MachinePool")
	require.NoError(t, err)
	owner := provider.Owner
	if owner.Empty() {
		owner = fake.MachinePoolGVK()
	}
	crds = append(crds, fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta2), contract.V1Beta2))
	require.NoError(t, cluster.InstallCRDs(t.Context(), w.plane.Config(), crds...))
	p := &poolScene{world: w, live: w.client}
	admin := w.plane.Config()
	admin.UserAgent = "fake-pool-provider"
	providers := p.newManager(admin)
	require.NoError(t, provider.SetupWithManager(providers))
	bootstrap := fake.Bootstrap{ProviderOptions: fake.ProviderOptions{Machine: owner, Name: "pool-bootstrap"}}
	require.NoError(t, bootstrap.SetupWithManager(providers))
	p.run(providers)
	return p
}

// startPools runs the reconciler in this process, with no more rights than it asks for.
func (p *poolScene) startPools() {
	p.t.Helper()
	ours := p.newManager(p.limited())
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	require.NoError(p.t, err)
	_, err = machinepool.SetupWithManager(p.t.Context(), ours, kinds, machinepool.Options{})
	require.NoError(p.t, err)
	p.run(ours)
}

// limited is a user with the rights that the package asks for, and no others.
func (p *poolScene) limited() *rest.Config {
	p.t.Helper()
	name := metav1.ObjectMeta{Name: poolAgent}
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	require.NoError(p.t, err)
	wiring := machinepool.Wiring{
		Kinds: kinds, Drains: true, Events: true,
		References: []schema.GroupResource{
			{Group: "infrastructure.cluster.x-k8s.io", Resource: "fakemachinepools"}, {Group: "bootstrap.cluster.x-k8s.io", Resource: "fakeconfigs"},
		},
	}
	rules := contract.MergePolicyRules(machinepool.PolicyRules(wiring), machinepool.NodePolicyRules(wiring))
	require.NoError(p.t, client.IgnoreAlreadyExists(p.client.Create(p.t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules})))
	require.NoError(p.t, client.IgnoreAlreadyExists(p.client.Create(p.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: poolAgent},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: poolAgent}},
	})))
	p.knowsRights(poolAgent, rules)
	limited, err := p.plane.ConfigFor(poolAgent)
	require.NoError(p.t, err)
	limited.UserAgent, limited.QPS = poolAgent, -1
	return limited
}

func (p *poolScene) newManager(cfg *rest.Config) ctrl.Manager {
	p.t.Helper()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{
			SkipNameValidation: new(true), UsePriorityQueue: new(false), // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
		},
	})
	require.NoError(p.t, err)
	return mgr
}

func (p *poolScene) run(mgr ctrl.Manager) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context())) // ends in Cleanup, behind the test's own context
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("manager: %v", err)
		}
	})
}

// pool creates a pool with what it refers to. Its Nodes get a label, by which the test's pods choose them.
func (p *poolScene) pool(replicas int64) *unstructured.Unstructured {
	p.t.Helper()
	pool := fake.MachinePool("pool", replicas, fake.WithField(map[string]any{"node.cluster.x-k8s.io/scene": "pool"},
		"spec", "template", "metadata", "labels"))
	for _, obj := range []client.Object{
		fake.BootstrapConfig(contract.V1Beta2, "pool"), fake.InfraMachinePool(contract.V1Beta2, "pool"), pool,
	} {
		require.NoError(p.t, p.client.Create(p.t.Context(), obj))
	}
	return pool
}

func (p *poolScene) scale(pool *unstructured.Unstructured, replicas int) {
	p.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	require.NoError(p.t, p.client.Patch(p.t.Context(), pool.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// reaches waits until a pool reports the wanted number of replicas, all available.
func (p *poolScene) reaches(pool *unstructured.Unstructured, replicas int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d replicas", replicas), func() string {
		fresh := p.get(pool)
		s := statusOf(p.t, fresh)
		if s.Phase != "Running" || s.ReadyReplicas.Or(-1) != int32(replicas) || s.AvailableReplicas.Or(-1) != int32(replicas) ||
			s.ObservedReplicas.Or(-1) != int32(replicas) || len(s.Nodes) != replicas {
			return fmt.Sprintf("%d ready, %d Nodes: %s", s.ReadyReplicas.Or(-1), len(s.Nodes), describe(fresh))
		}
		return ""
	})
}

func statusOf(t *testing.T, pool *unstructured.Unstructured) contract.MachinePoolState {
	t.Helper()
	var s contract.MachinePoolState
	require.NoError(t, contract.Unstructured(fake.MachinePoolGVK(), contract.LayoutsOf(contract.V1Beta2).MachinePool).Adapter.Read(pool, &s))
	return s
}

func (p *poolScene) mark() cluster.AuditMark {
	p.t.Helper()
	mark, err := p.plane.Audit().Mark()
	require.NoError(p.t, err)
	return mark
}

// sent are the requests of the reconciler, without watches, which end by themselves and are opened again.
func (p *poolScene) sent(mark cluster.AuditMark) cluster.AuditEvents {
	p.t.Helper()
	events, err := p.plane.Audit().Since(mark)
	require.NoError(p.t, err)
	return events.From(poolAgent).Where(func(e cluster.AuditEvent) bool { return e.Verb != "watch" })
}

// rests waits until the reconciler makes no requests for longer than anything takes that it does at intervals of seconds, and looks whether
// it stays so. The recorder sends an event late that came right after one of its kind: it learns that there is one from a conflict, and
// tries again ten seconds later.
func (p *poolScene) rests() {
	p.t.Helper()
	inTime := func(e cluster.AuditEvent) bool { return e.Resource != "events" || e.Verb != "patch" }
	p.eventually("the reconciler to come to rest", func() string {
		mark := p.mark()
		time.Sleep(8 * time.Second)
		if sent := p.sent(mark).Where(inTime); len(sent) > 0 {
			return "it still makes requests: " + sent.String()
		}
		return ""
	})
	mark := p.mark()
	time.Sleep(5 * time.Second)
	if sent := p.sent(mark).Where(inTime); len(sent) > 0 {
		p.t.Errorf("a pool in a steady state costs requests: %s", sent)
	}
}

// deploy has pods run on the pool, with a budget.
func (p *poolScene) deploy() {
	p.t.Helper()
	labels := map[string]string{"scene": "pool"}
	budget := intstr.FromInt32(poolBudget)
	meta := metav1.ObjectMeta{Name: "pool-app", Namespace: "default"}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(poolPods)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"node.cluster.x-k8s.io/scene": "pool"}, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app"}},
		}},
	}}
	guard := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &budget, Selector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	for _, obj := range []client.Object{deployment, guard} {
		require.NoError(p.t, p.client.Create(p.t.Context(), obj))
		p.t.Cleanup(func() { _ = p.live.Delete(context.WithoutCancel(p.t.Context()), obj) })
	}
}

// letGo takes the deployment away.
func (p *poolScene) letGo() {
	p.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "pool-app", Namespace: "default"}}
	require.NoError(p.t, p.client.Delete(p.t.Context(), deployment, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	p.podsRun(0)
}

func (p *poolScene) podsRun(want int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d pods", want), func() string {
		var pods corev1.PodList
		require.NoError(p.t, p.client.List(p.t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"scene": "pool"}))
		running := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
				running++
			}
		}
		if running != want || len(pods.Items) != want {
			return fmt.Sprintf("%d of %d run", running, len(pods.Items))
		}
		return ""
	})
}

func (p *poolScene) nodesAre(want int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d Nodes", want), func() string {
		var nodes corev1.NodeList
		require.NoError(p.t, p.client.List(p.t.Context(), &nodes, client.MatchingLabels{"node.cluster.x-k8s.io/scene": "pool"}))
		if len(nodes.Items) != want {
			return fmt.Sprintf("there are %d", len(nodes.Items))
		}
		return ""
	})
}
