//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

// checked are the Machines and Nodes of one scenario, in zones that their names begin with, and the check of them.
type checked struct {
	*scene

	check    *unstructured.Unstructured
	machines map[string]*unstructured.Unstructured
	nodes    map[string]*corev1.Node
}

// untilAllAreNotReady is longer than the time between the Leases of two Nodes that die at once, which kwok renews every 10 s: as with the
// timeouts that people set, the last Node is not Ready before the first Machine is unhealthy, also when those who say so are late.
const untilAllAreNotReady = 30 * time.Second

// newChecked makes Machines that a ConfigMap owns, as a set would, and waits until they are healthy.
func newChecked(t *testing.T, w *world, timeout time.Duration, names ...string) *checked {
	t.Helper()
	c := &checked{scene: newScene(t, w, nil), machines: map[string]*unstructured.Unstructured{}, nodes: map[string]*corev1.Node{}}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: c.name}}
	require.NoError(t, w.client.Create(t.Context(), owner))
	for _, name := range names {
		m := fake.Machine(name, append(c.options(), fake.WithLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"}))...)
		m.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true),
		}})
		require.NoError(t, w.client.Create(t.Context(), fake.InfraMachine(contract.V1Beta2, name, fake.InNamespace(c.name))))
		require.NoError(t, w.client.Create(t.Context(), m))
		node := fake.Node(c.name+"-"+name, c.id(name))
		node.Labels[corev1.LabelTopologyZone] = "zone-" + name[:1]
		require.NoError(t, w.client.Create(t.Context(), node))
		c.reports(name, c.id(name))
		c.machines[name], c.nodes[name] = m, node
	}
	c.check = fake.MachineHealthCheck("workers", map[string]string{"pool": "workers"}, timeout, fake.InNamespace(c.name))
	require.NoError(t, w.client.Create(t.Context(), c.check))
	for _, name := range names {
		c.verdict(name, metav1.ConditionTrue, healthcheck.ReasonSucceeded)
	}
	return c
}

// dies lets the Nodes of Machines die.
func (c *checked) dies(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.die(c.nodes[name])
	}
}

// revives has kwok play the kubelets of dead Nodes again, until their Machines are healthy.
func (c *checked) revives(names ...string) {
	c.t.Helper()
	for _, name := range names {
		alive := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"dead":null}}}`))
		require.NoError(c.t, c.client.Patch(c.t.Context(), c.nodes[name], alive))
	}
	for _, name := range names {
		c.verdict(name, metav1.ConditionTrue, healthcheck.ReasonSucceeded)
	}
}

func (c *checked) verdict(name string, status metav1.ConditionStatus, reason string) {
	c.t.Helper()
	c.eventually(name+" to be judged "+reason, func() string {
		fresh := c.get(c.machines[name])
		said, found, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, contract.ConditionHealthCheckSucceeded)
		if err != nil || !found || said.Status != status || said.Reason != reason {
			return describe(fresh)
		}
		return ""
	})
}

// marked are the Machines that are to be remediated.
func (c *checked) marked() string {
	c.t.Helper()
	var all []string
	for name, m := range c.machines {
		_, found, err := contract.ConditionsAt("status", "conditions").Find(c.get(m).Object, contract.ConditionOwnerRemediated)
		require.NoError(c.t, err)
		if found {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// allows waits until a check says whether it remediates, and why.
func (w *world) allows(check *unstructured.Unstructured, status metav1.ConditionStatus, reason, part string) {
	w.t.Helper()
	w.eventually("the check to say "+reason, func() string {
		fresh := w.get(check)
		said, _, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, contract.ConditionRemediationAllowed)
		if err != nil || said.Status != status || said.Reason != reason || !strings.Contains(said.Message, part) {
			return describe(fresh)
		}
		return ""
	})
}

// counts waits until a check has so many Machines, and so many of them are healthy.
func (w *world) counts(check *unstructured.Unstructured, machines, healthy int) (state contract.HealthCheckState) {
	w.t.Helper()
	kind := contract.Unstructured(fake.MachineHealthCheckGVK(), contract.LayoutsOf(contract.V1Beta2).HealthCheck)
	want := fmt.Sprintf("%d of %d healthy", healthy, machines)
	w.eventually("the check to count "+want, func() string {
		fresh := w.get(check)
		require.NoError(w.t, kind.Adapter.Read(fresh, &state))
		if got := fmt.Sprintf("%d of %d healthy", state.CurrentHealthy.Or(-1), state.ExpectedMachines.Or(-1)); got != want {
			return got + "; " + describe(fresh)
		}
		return ""
	})
	return state
}

// mortalPlane starts a control plane that notices soon when a Node dies, which the label dead=true makes it do.
func mortalPlane(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	plane, err := cluster.Start(t.Context(), cluster.Options{
		Log: os.Stderr, Without: []cluster.Component{cluster.Scheduler}, ManagedNodes: "dead!=true",
		ExtraArgs: map[cluster.Component][]string{cluster.ControllerManager: {"--node-monitor-grace-period=16s", "--node-monitor-period=1s"}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	return plane
}

// installHealthChecks installs the CRD of MachineHealthChecks.
func (w *world) installHealthChecks() {
	w.t.Helper()
	crds, err := cluster.ClusterAPICRDs(w.t.Context(), "v1beta2", "MachineHealthCheck")
	require.NoError(w.t, err)
	require.NoError(w.t, cluster.InstallCRDs(w.t.Context(), w.plane.Config(), crds...))
}

// die has kwok no longer play the kubelet of a Node: nothing renews its Lease.
func (w *world) die(node client.Object) {
	w.t.Helper()
	dead := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"dead":"true"}}}`))
	require.NoError(w.t, w.client.Patch(w.t.Context(), node, dead))
}

// The Nodes of three groups of Machines die: one after the other, all of a zone, and all at once. What is marked is what the policy says.
func TestE2EMachinesOfDeadNodesAreMarkedAsThePolicySays(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, mortalPlane(t))
	w.installHealthChecks()
	m := w.managerWith(managerBinary(t), managerAgent+"-checks", "--machinehealthchecks")
	t.Cleanup(func() {
		m.stop()
		if t.Failed() {
			fmt.Fprintln(os.Stderr, m.log.String())
		}
	})
	t.Run("scenarios", func(t *testing.T) {
		for name, scenario := range map[string]func(*testing.T, *world){
			"one by one": diesOneByOne, "a zone": diesAsAZone, "all": diesAtOnce,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(t, w)
			})
		}
	})
	m.stop()
	t.Run("exactly the rights that it asks for", func(t *testing.T) { remediatesWithItsRights(t, w.in(t)) })
}

// remediatesWithItsRights runs the reconciler alone, with a template: for a Machine whose Node is gone, and for one on a person's request.
func remediatesWithItsRights(t *testing.T, w *world) {
	request := schema.GroupVersionKind{Group: "remediation.example.com", Version: "v1", Kind: "PowerCycle"}
	template := request.GroupVersion().WithKind("PowerCycleTemplate")
	require.NoError(t, cluster.InstallCRDs(t.Context(), w.plane.Config(), fake.CRD(request), fake.CRD(template)))
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	user, err := rights.Grant(t.Context(), w.plane, "health-checks-alone", rights.Asked{Cluster: contract.MergePolicyRules(
		workloads.WorkloadPolicyRules(workloads.WorkloadWiring{}), remediation.PolicyRules(remediation.Wiring{
			Kinds: kinds, Events: true, Templates: []schema.GroupResource{{Group: request.Group, Resource: "powercycletemplates"}},
			Requests: []schema.GroupResource{{Group: request.Group, Resource: "powercycles"}},
		}))})
	require.NoError(t, err)
	stop := runsAlone(t, user, kinds)

	s := newScene(t, w, nil)
	cycle := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	cycle.SetGroupVersionKind(template)
	cycle.SetNamespace(s.name)
	cycle.SetName("cycle")
	require.NoError(t, w.client.Create(t.Context(), cycle))
	var machines []*unstructured.Unstructured
	for _, name := range []string{"a", "b", "c"} {
		node := s.join(name, s.id(name))
		m := fake.Machine(name, append(s.options(), fake.WithLabels(map[string]string{contract.ClusterNameLabel: "demo"}),
			fake.WithField(s.id(name), "spec", "providerID"))...)
		require.NoError(t, w.client.Create(t.Context(), m))
		w.setStatus(m, map[string]any{"nodeRef": map[string]any{"name": node.Name}})
		machines = append(machines, m)
	}
	ref := map[string]any{"apiVersion": template.GroupVersion().String(), "kind": template.Kind, "name": "cycle"}
	check := fake.MachineHealthCheck("all", map[string]string{workerLabel: ""}, time.Minute, fake.InNamespace(s.name),
		fake.WithField(ref, "spec", "remediation", "templateRef"))
	require.NoError(t, w.client.Create(t.Context(), check))
	for _, m := range machines {
		s.says(m, contract.ConditionHealthCheckSucceeded, healthcheck.ReasonSucceeded)
	}
	annotated := func(value string) client.Patch {
		return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+contract.RemediateAnnotation+`":`+value+`}}}`))
	}
	require.NoError(t, w.client.Patch(t.Context(), machines[0], annotated(`""`)))
	s.says(machines[0], contract.ConditionExternallyRemediated, remediation.ReasonWaitingForRemediation)
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(request)
	made.SetNamespace(s.name)
	made.SetName("a")
	require.NotNil(t, w.get(made))
	require.NoError(t, w.client.Patch(t.Context(), machines[0], annotated("null")))
	s.says(machines[0], contract.ConditionHealthCheckSucceeded, healthcheck.ReasonSucceeded)
	w.gone(made)
	require.NoError(t, w.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-b"}}))
	s.says(machines[1], contract.ConditionHealthCheckSucceeded, healthcheck.ReasonNodeDeleted)
	s.says(machines[1], contract.ConditionExternallyRemediated, remediation.ReasonWaitingForRemediation)
	stop()
	w.exactly(user, map[string]string{"patch events.k8s.io/events": "an event comes again"})
}

// runsAlone runs the reconciler of health checks in this process as a user.
func runsAlone(t *testing.T, user *rights.User, kinds contract.Kinds) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(user.Config(), ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{UsePriorityQueue: new(false)},
	})
	require.NoError(t, err)
	nodes, err := workloads.WorkloadOptions{}.FromManager(t.Context(), mgr)
	require.NoError(t, err)
	_, err = remediation.SetupWithManager(t.Context(), mgr, kinds, nodes, remediation.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func diesOneByOne(t *testing.T, w *world) {
	c := newChecked(t, w, 2*time.Second, "a1", "a2", "b1", "b2", "c1", "c2")
	c.dies("a1")
	c.verdict("a1", metav1.ConditionFalse, healthcheck.ReasonUnhealthyNode)
	c.eventually("a1 to be marked", func() string { return strings.TrimPrefix(c.marked()+".", "a1.") })
	c.dies("b2")
	c.eventually("b2 to be marked", func() string { return strings.TrimPrefix(c.marked()+".", "a1 b2.") })
	said, _, err := contract.ConditionsAt("status", "conditions").Find(c.get(c.machines["b2"]).Object, contract.ConditionOwnerRemediated)
	require.NoError(t, err)
	require.Equal(t, remediation.ReasonWaitingForRemediation, said.Reason)
	c.allows(c.check, metav1.ConditionTrue, healthcheck.ReasonRemediationAllowed, "")
	state := c.counts(c.check, 6, 4)
	require.EqualValues(t, 4, state.RemediationsAllowed.Or(-1))
	require.Equal(t, []string{"a1", "a2", "b1", "b2", "c1", "c2"}, state.Targets)
}

func diesAsAZone(t *testing.T, w *world) {
	c := newChecked(t, w, untilAllAreNotReady, "a1", "a2", "a3", "b1", "b2", "b3")
	c.dies("a1", "a2", "a3")
	for _, name := range []string{"a1", "a2", "a3"} {
		c.verdict(name, metav1.ConditionFalse, healthcheck.ReasonUnhealthyNode)
	}
	c.allows(c.check, metav1.ConditionFalse, healthcheck.ReasonOutage, "3 of 3 Machines of failure domain zone-a became unhealthy at once")
	require.Empty(t, c.marked())

	c.revives("a1", "a2") // the third is no outage by itself, and has been unhealthy for long
	c.allows(c.check, metav1.ConditionFalse, healthcheck.ReasonOutage, "The outage of failure domain zone-a ended at ")
	require.Empty(t, c.marked())
	c.revives("a3")
	c.counts(c.check, 6, 6)
	require.Empty(t, c.marked())
}

func diesAtOnce(t *testing.T, w *world) {
	c := newChecked(t, w, untilAllAreNotReady, "a1", "b1", "c1", "c2")
	c.dies("a1", "b1", "c1", "c2")
	for _, name := range []string{"a1", "b1", "c1", "c2"} {
		c.verdict(name, metav1.ConditionFalse, healthcheck.ReasonUnhealthyNode)
	}
	c.allows(c.check, metav1.ConditionFalse, healthcheck.ReasonOutage, "All 4 Machines became unhealthy at once")
	require.Empty(t, c.marked())
	asked := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+contract.RemediateAnnotation+`":""}}}`))
	require.NoError(t, w.client.Patch(t.Context(), c.machines["b1"], asked))
	c.eventually("b1 to be marked", func() string { return strings.TrimPrefix(c.marked()+".", "b1.") })
}
