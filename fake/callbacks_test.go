package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

func TestThePassOfALaggingPoolProviderEndsWithItsContext(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachinePoolGVK(), Status: true}}})
	p, v := providers{t: t, client: store.Client()}, contract.V1Beta2
	pool := fake.MachinePool("pool", 1, fake.WithField("data", "spec", "template", "spec", "bootstrap", "dataSecretName"))
	p.create(fake.CRD(fake.InfraMachinePoolGVK(v), v), pool)
	infra := fake.InfraMachinePool(v, "pool")
	infra.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(pool, fake.MachinePoolGVK())})
	p.create(infra)
	mgr, err := store.NewManager(ctrl.Options{Controller: config.Controller{SkipNameValidation: new(true)}})
	require.NoError(t, err)
	provider := &fake.PoolInfrastructure{Lag: time.Hour}
	require.NoError(t, provider.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := provider.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(infra)})
		ended <- err
	}()
	p.eventually("the finalizer, which comes before the lag", func() string {
		return map[bool]string{true: "it is missing"}[len(p.get(infra).GetFinalizers()) == 0]
	})
	cancel()
	p.eventually("the end of the pass", func() string { return map[bool]string{true: "it goes on"}[len(ended) == 0] })
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestWhatKeepsMachinesFromBecomingReadyMayHoldThem(t *testing.T) {
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}})
	machine := fake.Machine("m")
	require.NoError(t, store.Client().Create(t.Context(), machine))
	machines := fake.NewMachines(store.Client(), contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2()))
	machines.NotReady(func(client.Object) bool {
		machines.Hold(true)
		return true
	})
	result, err := machines.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
	require.NoError(t, err)
	require.NotZero(t, result.RequeueAfter)
}
