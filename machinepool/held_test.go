package machinepool_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// listed has an InfraMachinePool list instances, as its provider does.
func (w *world) listed(infra *unstructured.Unstructured, ids ...any) {
	w.t.Helper()
	w.change(infra, func(u *unstructured.Unstructured) {
		set(ids, "spec", "providerIDList")(u)
		set(int64(len(ids)), "status", "replicas")(u)
		set(true, "status", "initialization", "provisioned")(u)
	})
}

// poolOf creates a pool whose instances are those given, each with a Node n-0, n-1 and so on.
func (w *world) poolOf(ids ...any) (pool, infra *unstructured.Unstructured) {
	w.t.Helper()
	infra = fake.InfraMachinePool(contract.V1Beta2, "pool")
	pool = fake.MachinePool("pool", int64(len(ids)), set(map[string]any{"dataSecretName": "mine"}, "spec", "template", "spec", "bootstrap"))
	w.create(infra, pool)
	for i, id := range ids {
		w.create(fake.Node(fmt.Sprintf("n-%d", i), id.(string))) //nolint:forcetypeassert // a test's own IDs
	}
	w.listed(infra, ids...)
	w.reports(pool, "Running", int64(len(ids)), int64(len(ids)))
	return pool, infra
}

func (w *world) nodesGo(left int) {
	w.t.Helper()
	w.eventually("the Nodes go", func() string {
		if n := len(w.nodes()); n != left {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
}

func TestAProviderThatChangesTheFormOfItsIDsHasNoNodeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1", "p://2", "p://3")
	untouched := func(n int) {
		t.Helper()
		w.isQuiet()
		nodes := w.nodes()
		require.Len(t, nodes, n)
		for _, node := range nodes {
			require.False(t, node.Spec.Unschedulable, node.Name)
		}
	}
	w.listed(infra, "p:///zone/1", "p:///zone/2", "p:///zone/3")
	message := w.conditionIs(pool, contract.ConditionInfrastructureReady, machinepool.ReasonInstancesHeld)
	require.Contains(t, message, "n-0, n-1, n-2")
	untouched(3)
	w.reports(pool, "Running", 3, 3)
	w.restart(func() { w.create(fake.Node("n-3", "p:///zone/3")) }) // a Node with an ID of the new form confirms nothing about the others
	untouched(4)
	w.conditionIs(pool, contract.ConditionInfrastructureReady, machinepool.ReasonInstancesHeld)
	require.Contains(t, message, scale.DeleteAnnotation)
	for _, name := range []string{"n-0", "n-1", "n-2"} {
		w.writeNode(name, markLeaving)
	}
	w.nodesGo(1)
}

func TestInstancesThatAreReplacedAtOnceAreBelievedWhenTheirNodesAreSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1")
	w.listed(infra, "p://2")
	w.create(fake.Node("n-1", "p://2"))
	w.conditionIs(pool, contract.ConditionInfrastructureReady, machinepool.ReasonInstancesHeld)
	var node corev1.Node
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "n-0"}, &node))
	silent := node.DeepCopy()
	for i := range silent.Status.Conditions {
		if c := &silent.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(time.Now().Add(-time.Hour))
		}
	}
	require.NoError(t, w.client.Status().Patch(t.Context(), silent, client.MergeFrom(&node)))
	w.nodesGo(1)
	w.reports(pool, "Running", 1, 1)
	require.Equal(t, "n-1", w.nodes()[0].Name)
}

// No event tells that a Node has been silent for long enough.
func TestInstancesThatAreReplacedAtOnceAreBelievedOnceTheirNodesHaveBeenSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	_, infra := w.poolOf("p://1")
	w.create(fake.Node("n-1", "p://2"))
	w.eventually("the kubelet of the first is silent", func() string {
		var node corev1.Node
		require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "n-0"}, &node))
		silent := node.DeepCopy()
		for i := range silent.Status.Conditions {
			if c := &silent.Status.Conditions[i]; c.Type == corev1.NodeReady { // for five minutes, a few seconds from now
				c.Status, c.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(time.Now().Add(4*time.Second-5*time.Minute))
			}
		}
		if err := w.client.Status().Patch(t.Context(), silent, client.MergeFrom(&node)); err != nil {
			return err.Error()
		}
		return ""
	})
	w.listed(infra, "p://2")
	w.nodesGo(1)
	require.Equal(t, "n-1", w.nodes()[0].Name)
}

func TestANodeWithoutPodsIsDrainedHoweverManyAreStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	_, _ = w.poolOf("p://1", "p://2")
	w.guarded("n-0")
	w.writeNode("n-0", markLeaving)
	w.eventually("an eviction is refused", func() string {
		if !slices.ContainsFunc(w.store.Requests(), func(r fake.Request) bool { return r.Subresource == "eviction" }) {
			return "none yet"
		}
		return ""
	})
	w.writeNode("n-1", markLeaving)
	w.nodeIs("n-1", true, true)
	w.nodeIs("n-0", true, false)
	for _, obj := range guardedPod("n-0")[1:] {
		require.NoError(t, w.client.Delete(t.Context(), obj))
	}
	w.nodeIs("n-0", true, true)
}

func refuse(w *world, verb, kind, name string) (remove func()) {
	return w.store.Inject(fake.Fault{
		Match: func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.Verb == verb && r.GVK.Kind == kind && (name == "" || r.Name == name)
		},
		Err:   apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(kind)}, name, fmt.Errorf("admission webhook says no")),
		Times: -1,
	})
}

func TestARefusedDeletionOfANodeDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1", "p://2", "p://3")
	remove := refuse(w, "delete", "Node", "n-0")
	w.change(pool, set(int64(1), "spec", "replicas"))
	w.listed(infra, "p://3")
	w.nodesGo(2)
	w.reports(pool, "Running", 1, 1)
	remove()
	w.nodesGo(1)
}

func TestARefusedAdoptionDelaysOnlyItsOwnStageOfADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, noGarbage: true})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	config := fake.BootstrapConfig(contract.V1Beta2, "pool")
	w.isQuiet()
	remove := refuse(w, "patch", config.GetKind(), "")
	w.end()
	w.change(config, func(u *unstructured.Unstructured) { // as after a restore from a backup
		refs := u.GetOwnerReferences()
		refs[0].UID = "before"
		u.SetOwnerReferences(refs)
	})
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.end = w.begin()
	w.goes(fake.InfraMachinePool(contract.V1Beta2, "pool"))
	require.NotNil(t, w.get(pool))
	remove()
	w.goes(pool, config)
}

func TestThePagesExamplesGoThroughAReconcilerUnchanged(t *testing.T) {
	t.Parallel()
	config, infra := machinepool.PageExamples(t)
	for _, obj := range []*unstructured.Unstructured{config, infra} { // the page's objects have no names
		obj.SetName("page")
		obj.SetNamespace("default")
	}
	reference := func(u *unstructured.Unstructured) map[string]any {
		return map[string]any{"apiGroup": u.GroupVersionKind().Group, "kind": u.GetKind(), "name": u.GetName()}
	}
	pool := fake.MachinePool("page", 2, set(reference(config), "spec", "template", "spec", "bootstrap", "configRef"),
		set(reference(infra), "spec", "template", "spec", "infrastructureRef"))
	for name, tc := range map[string]struct {
		contracts []contract.Version
		read      bool
	}{
		"CRDs of that time":                 {[]contract.Version{contract.V1Alpha3}, true},
		"CRDs that name no contract at all": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOptions{pool: machinepool.Options{Options: pass.Options{ContractVersions: contract.AllVersions()}}})
			w.create(fake.CRD(config.GroupVersionKind(), tc.contracts...), fake.CRD(infra.GroupVersionKind(), tc.contracts...))
			mine := pool.DeepCopy()
			w.create(mine, fake.Node("n-0", "cloud:////my-cloud-provider-id-0"), fake.Node("n-1", "cloud:////my-cloud-provider-id-1"))
			for _, obj := range []*unstructured.Unstructured{config, infra} {
				made := obj.DeepCopy()
				w.create(made)
				w.change(made, func(u *unstructured.Unstructured) { u.Object["status"] = obj.DeepCopy().Object["status"] })
			}
			if !tc.read {
				w.conditionIs(mine, contract.ConditionInfrastructureReady, "ContractLabelMissing")
				return
			}
			w.reports(mine, "Running", 2, 2)
			w.eventually("the name of the Secret", func() string {
				secret, _, _ := unstructured.NestedString(w.get(mine).Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
				if secret != "MyBootstrapSecret" {
					return "it is " + secret
				}
				return ""
			})
		})
	}
}

func TestAPoolThatOnlyALabelPutsIntoAClusterHasItsNodesThere(t *testing.T) {
	t.Parallel()
	asked := &askedFor{}
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: asked.ports})
	pool := fake.MachinePool("pool", 1, fake.WithLabels(map[string]string{contract.ClusterNameLabel: "demo"}))
	unstructured.RemoveNestedField(pool.Object, "spec", "clusterName")
	w.create(fake.BootstrapConfig(contract.V1Beta2, "pool"), fake.InfraMachinePool(contract.V1Beta2, "pool"), pool)
	w.reports(pool, "Running", 1, 1)
	require.Equal(t, []client.ObjectKey{{Namespace: "default", Name: "demo"}}, asked.clusters())
}

// A CRD without the status subresource answers a write of the status that there is no such place, as if the pool were gone.
func TestAPoolWithoutAStatusSubresourceGetsAStatusOrAnError(t *testing.T) {
	t.Parallel()
	t.Run("its kind says so", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, noStatus: true,
			kinds: func(k *machinepool.Kinds) { k.Pool.StatusSubresource = false }})
		pool := w.poolWith(1)
		w.reports(pool, "Running", 1, 1)
		w.isQuiet()
	})
	t.Run("its kind does not", func(t *testing.T) {
		t.Parallel()
		failed := &failures{}
		w := newWorld(t, worldOptions{noStatus: true, pool: machinepool.Options{Options: pass.Options{Controller: failed.options()}}})
		w.create(fake.MachinePool("pool", 1))
		w.eventually("an error", func() string {
			if text := failed.last(); !strings.Contains(text, "StatusSubresource") {
				return "none that says what to do: " + text
			}
			return ""
		})
	})
}

func TestADeletionThatIsAnsweredThatThereIsNoSuchPlaceIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	_, infra := w.poolOf("p://1", "p://2")
	nowhere := apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: "nodes"}, "", "404 page not found", 0, true)
	require.True(t, apierrors.HasStatusCause(nowhere, metav1.CauseTypeUnexpectedServerResponse))
	w.store.FailNext(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind == "Node"
	}, nowhere)
	w.listed(infra, "p://2")
	w.nodesGo(1)
}

// askedFor notes which clusters NodesOf was asked for. There is no other way to Nodes.
type askedFor struct {
	mu   sync.Mutex
	seen []client.ObjectKey
}

func (a *askedFor) ports(_ ctrl.Manager, ports *machinepool.Ports) {
	inner := ports.Workload
	ports.NodesOf = func(key types.NamespacedName) (cluster.Workload, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !slices.Contains(a.seen, key) {
			a.seen = append(a.seen, key)
		}
		return inner, nil
	}
	ports.WorkloadEvents = func(cluster.Mapper) source.Source { return source.Func(noEvents) }
	ports.Workload = cluster.Workload{}
}

func (a *askedFor) clusters() []client.ObjectKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

// failures notes what the controller logs as errors.
type failures struct {
	mu   sync.Mutex
	text string
}

func (f *failures) options() controller.Options {
	return controller.Options{LogConstructor: func(*reconcile.Request) logr.Logger {
		return funcr.New(func(_, args string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.text = args
		}, funcr.Options{})
	}}
}

func (f *failures) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text
}
