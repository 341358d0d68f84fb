package inframachine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

func TestAMachineRunsOnAnInstanceOfADriverAndIsDeletedAgain(t *testing.T) {
	t.Parallel()
	for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		t.Run(string(v), func(t *testing.T) {
			w := newWorld(t, worldOptions{version: v, cloud: fake.DriverOptions{Boot: 50 * time.Millisecond, Vanish: 50 * time.Millisecond}})
			m, infra := w.machineOf("m1", "large")
			w.reaches(m, string(phases.Running))
			require.Equal(t, "boot m1", w.cloud.UserData(string(infra.GetUID())), "the Token is the UID of the InfraMachine")
			w.says(infra, contract.ConditionReady, contract.ReasonReady)

			fresh := w.Get(infra)
			var said contract.InfraMachineState
			require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(fresh, &said))
			require.True(t, said.Provisioned)
			require.Equal(t, "fake://1", said.ProviderID)
			require.Len(t, said.Addresses, 2)
			require.Contains(t, fresh.GetFinalizers(), inframachine.Finalizer)
			require.Empty(t, conformance.CheckObject(fresh, conformance.InfraMachine, v).Findings)
			var node corev1.Node
			require.NoError(t, w.Client.Get(t.Context(), client.ObjectKey{Name: "m1"}, &node))

			w.isQuiet()
			w.Delete(m)
			w.Gone(m, infra)
			require.Empty(t, w.instances())
			require.Equal(t, 1, w.cloud.Made(string(infra.GetUID())))
			require.True(t, apierrors.IsNotFound(w.Client.Get(t.Context(), client.ObjectKey{Name: "m1"}, &node)))
		})
	}
}

func TestTheCRDsOfTheTestsFulfilTheContract(t *testing.T) {
	t.Parallel()
	for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		for _, f := range conformance.CheckCRD(cloudMachineCRD(v), conformance.InfraMachine).Findings {
			require.NotEqual(t, conformance.Must, f.Level, "%s: %s", v, f)
		}
	}
}

func TestAnAnswerThatIsLostMakesNoSecondInstance(t *testing.T) {
	var mu sync.Mutex
	var w *world
	var bare []string
	lost := map[provider.Operation]int{provider.OpCreate: 3, provider.OpGet: 2, provider.OpDelete: 3}
	w = newWorld(t, worldOptions{cloud: fake.DriverOptions{
		Boot: 20 * time.Millisecond, Hidden: 100 * time.Millisecond, Answer: func(op provider.Operation, r provider.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if op == provider.OpCreate && !slices.Contains(w.Get(cloudMachine(r.Name, "")).GetFinalizers(), inframachine.Finalizer) {
				bare = append(bare, r.Name)
			}
			if lost[op]--; lost[op] >= 0 {
				return errors.New("connection reset")
			}
			return nil
		},
	}})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	w.Delete(m)
	w.Gone(m, infra)
	mu.Lock()
	require.Empty(t, bare, "the finalizer stands before anything is made")
	mu.Unlock()
	require.Equal(t, 1, w.cloud.Made(string(infra.GetUID())))
	require.Empty(t, w.instances())
}

func TestAnInstanceWhoseAnswerWasLostIsDeletedByItsToken(t *testing.T) {
	w := newWorld(t, worldOptions{cloud: fake.DriverOptions{Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpCreate {
			return errors.New("connection reset")
		}
		return nil
	}}})
	m, infra := w.machineOf("m1", "small")
	w.says(infra, contract.ConditionReady, string(provider.Unavailable))
	require.Len(t, w.instances(), 1)
	w.Delete(m)
	w.Gone(m, infra)
	require.Empty(t, w.instances())
}

func TestADeletionNeedsNoValidSpecificationNoClassAndNoSecret(t *testing.T) {
	var class sync.Map
	class.Store("exists", true)
	w := newWorld(t, worldOptions{options: inframachine.Options{
		Input: func(ctx context.Context, m *contract.ProvidedMachineState) (provider.Request, error) {
			if _, exists := class.Load("exists"); !exists {
				return provider.Request{}, errors.New("the class does not exist")
			}
			return inframachine.Spec(ctx, m)
		},
	}})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	class.Delete("exists")
	w.Change(infra, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "broken", "spec", "size"))
	})
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = "default", "m1"
	w.Delete(secret)
	w.Delete(m)
	w.Gone(m, infra)
	require.Empty(t, w.instances())
}

func TestASecretThatIsMissingIsNamedAndWaitedFor(t *testing.T) {
	w := newWorld(t, worldOptions{noBootstrap: true})
	m, infra := w.machineOf("m1", "small")
	w.says(infra, contract.ConditionReady, instance.ReasonWaitingForData)
	require.Zero(t, w.cloud.Calls(provider.OpCreate))
	w.Change(m, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "bootstrap", "configRef")
		require.NoError(t, unstructured.SetNestedField(u.Object, "data", "spec", "bootstrap", "dataSecretName"))
	})
	c := w.says(infra, contract.ConditionReady, string(provider.Unavailable))
	require.Contains(t, c.Message, "Secret default/data does not exist")
	secret := &corev1.Secret{Data: map[string][]byte{"value": []byte("mine")}}
	secret.Namespace, secret.Name = "default", "data"
	w.Create(secret)
	w.reaches(m, string(phases.Running))
	require.Equal(t, "mine", w.cloud.UserData(string(infra.GetUID())))
}

func TestWhatADriverWantsToResumeWithIsKeptUntilTheProviderIDIsKnown(t *testing.T) {
	var asked atomic.Int64
	jobs := func(c provider.Calls) provider.Calls {
		create := c.Create
		c.Create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
			if asked.Add(1) == 1 {
				return provider.Instance{Token: r.Token, State: provider.Creating, Resume: []byte(`{"job":7}`)}, nil
			}
			if string(r.Resume) != `{"job":7}` {
				return provider.Instance{}, provider.Errorf(provider.Terminal, "the job was lost: %s", r.Resume)
			}
			return create(ctx, r)
		}
		return c
	}
	w := newWorld(t, worldOptions{around: []provider.Decorator{jobs}})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	require.NotContains(t, w.Get(infra).GetAnnotations(), contract.InstanceResumeAnnotation, "it is over")
	require.EqualValues(t, 2, asked.Load())
}

func TestFirstBootDataOfTheEmbedderTakesThePlaceOfTheSecret(t *testing.T) {
	w := newWorld(t, worldOptions{noBootstrap: true, options: inframachine.Options{
		UserData: func(_ context.Context, secret types.NamespacedName) ([]byte, error) {
			return []byte("of " + secret.String()), nil
		},
	}})
	m, infra := w.machineOf("m1", "small")
	w.Change(m, func(u *unstructured.Unstructured) { // there is no such Secret
		unstructured.RemoveNestedField(u.Object, "spec", "bootstrap", "configRef")
		require.NoError(t, unstructured.SetNestedField(u.Object, "data", "spec", "bootstrap", "dataSecretName"))
	})
	w.reaches(m, string(phases.Running))
	require.Equal(t, "of default/data", w.cloud.UserData(string(infra.GetUID())))
}
