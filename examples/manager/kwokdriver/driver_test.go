package kwokdriver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	contractcheck "github.com/machinist-dev/machinist/contract/conformance"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

func newDriver(t *testing.T) (*kwokdriver.Driver, *fake.Store) {
	t.Helper()
	store := fake.NewStore(fake.Options{})
	return kwokdriver.New(store.Client(), 0), store
}

func request(token, name string) provider.Request {
	return provider.Request{Token: token, Name: name, Cluster: "c1", Version: "v1.36.1", FailureDomain: "z1", Spec: []byte(`{"cpu":"8"}`)}
}

func TestTheDriverPassesTheConformanceSuite(t *testing.T) {
	t.Parallel()
	driver, _ := newDriver(t)
	var n atomic.Int64
	env := provider.Conformance{
		Driver: driver, Request: provider.Request{Cluster: "conformance", Spec: []byte(`{"cpu":"2"}`)}, Invalid: []byte(`{"cpu":"many"}`),
		Token: func() string { return fmt.Sprint("token-", n.Add(1)) }, Limit: time.Minute, Pause: time.Millisecond,
	}
	for _, c := range provider.Cases() {
		require.NoError(t, c.Run(t.Context(), env), "%s, because %s", c.Name, c.Reason)
	}
}

func TestAnInstanceIsANodeThatKwokSimulates(t *testing.T) {
	t.Parallel()
	driver, store := newDriver(t)
	made, err := driver.Create(t.Context(), request("uid-1", "M1"))
	require.NoError(t, err)
	var node corev1.Node
	require.NoError(t, store.Client().Get(t.Context(), client.ObjectKey{Name: made.Name}, &node))
	require.True(t, strings.HasPrefix(node.Name, "m1-"))
	require.Equal(t, "fake", node.Annotations[kwokdriver.NodeAnnotation])
	require.Equal(t, made.ProviderID, node.Spec.ProviderID)
	require.Equal(t, "8", node.Status.Capacity.Cpu().String())
	require.Equal(t, "v1.36.1", node.Status.NodeInfo.KubeletVersion)
	require.Equal(t, "z1", made.FailureDomain)
	require.Equal(t, []provider.Address{{Type: "Hostname", Address: node.Name}}, made.Addresses)
	require.NoError(t, store.Client().Delete(t.Context(), &node))
	_, err = driver.Get(t.Context(), request("uid-1", "M1"))
	require.Equal(t, provider.NotFound, provider.ClassOf(err))
}

// TestAnInstanceHasNoNodeWhileItBoots: nobody asks for the Node before the boot time is over, so it cannot be there by then.
func TestAnInstanceHasNoNodeWhileItBoots(t *testing.T) {
	t.Parallel()
	const boot = 300 * time.Millisecond
	store := fake.NewStore(fake.Options{})
	calls := provider.Of(kwokdriver.New(store.Client(), boot), fake.Unreliable(fake.UnreliableOptions{
		Vanish: time.Hour, Hidden: time.Nanosecond, Quota: 1,
	}))
	nodes := func() int {
		var list corev1.NodeList
		require.NoError(t, store.Client().List(t.Context(), &list))
		return len(list.Items)
	}
	r, began := request("uid-1", "m1"), time.Now()
	made, err := calls.Create(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, provider.Creating, made.State)
	require.Empty(t, made.ProviderID, "it is recorded when there is a Node")
	require.Zero(t, nodes())
	seen, err := calls.Get(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, made, seen)
	_, err = calls.Create(t.Context(), request("uid-2", "m2"))
	require.Equal(t, provider.Exhausted, provider.ClassOf(err), "it counts")
	for made.State == provider.Creating {
		time.Sleep(boot / 10)
		made, err = calls.Create(t.Context(), r)
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, time.Since(began), boot)
	require.Equal(t, 1, nodes())
	all, err := calls.List(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "uid-1", all[0].Token)
}

func TestAnInstanceThatBootsCanBeDeleted(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	calls := provider.Of(kwokdriver.New(store.Client(), time.Hour), fake.Unreliable(fake.UnreliableOptions{Vanish: time.Hour}))
	r := request("uid-1", "m1")
	_, err := calls.Create(t.Context(), r)
	require.NoError(t, err)
	gone, err := calls.Delete(t.Context(), r)
	require.NoError(t, err)
	require.True(t, gone)
	_, err = calls.Get(t.Context(), r)
	require.Equal(t, provider.NotFound, provider.ClassOf(err))
}

func TestANodeOfAnotherMakerIsLeftAlone(t *testing.T) {
	t.Parallel()
	driver, store := newDriver(t)
	node := fake.Node("real", "kwok://real")
	require.NoError(t, store.Client().Create(t.Context(), node))
	r := request("uid-1", "real")
	r.ProviderID = "kwok://real"
	gone, err := driver.Delete(t.Context(), r)
	require.NoError(t, err)
	require.True(t, gone)
	require.NoError(t, store.Client().Get(t.Context(), client.ObjectKeyFromObject(node), node))
	r.ProviderID = "aws://real"
	_, err = driver.Get(t.Context(), r)
	require.Equal(t, provider.NotFound, provider.ClassOf(err))
}

func TestTheAnswersOfTheAPIServerHaveAClass(t *testing.T) {
	t.Parallel()
	driver, store := newDriver(t)
	for code, want := range map[int]provider.Class{
		http.StatusForbidden: provider.Unauthenticated, http.StatusUnprocessableEntity: provider.Invalid,
		http.StatusTooManyRequests: provider.RateLimited, http.StatusInternalServerError: provider.Unavailable,
	} {
		nodes := schema.GroupKind{Kind: "Node"}
		store.FailNext(fake.Match("create", nodes, ""), &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: int32(code), Reason: reasonOf(code), Message: "refused",
		}})
		_, err := driver.Create(t.Context(), request(fmt.Sprint("uid-", code), "m1"))
		require.Equal(t, want, provider.ClassOf(err), "%d: %v", code, err)
	}
}

func reasonOf(code int) metav1.StatusReason {
	return map[int]metav1.StatusReason{
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}[code]
}

func TestWrongQuantitiesAreAllNamed(t *testing.T) {
	t.Parallel()
	driver, _ := newDriver(t)
	err := driver.Validate(t.Context(), provider.Request{Spec: []byte(`{"cpu":"many","memory":"-1Gi"}`)})
	require.Equal(t, provider.Invalid, provider.ClassOf(err))
	require.EqualError(t, err, "cpu \"many\": give a quantity above zero, such as 4 or 16Gi\n"+
		"memory \"-1Gi\": give a quantity above zero, such as 4 or 16Gi")
}

func TestTheCRDsFulfilTheContract(t *testing.T) {
	t.Parallel()
	documents := strings.Split(kwokdriver.CRDs(), "\n---\n")
	require.Len(t, documents, 2)
	for i, role := range []contractcheck.Role{contractcheck.InfraMachine, contractcheck.InfraMachineTemplate} {
		var crd unstructured.Unstructured
		require.NoError(t, yaml.Unmarshal([]byte(documents[i]), &crd.Object))
		require.Empty(t, contractcheck.CheckCRD(&crd, role).Findings)
		store := fake.NewStore(fake.Options{})
		require.NoError(t, store.Client().Create(t.Context(), &crd))
	}
	var crd unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal([]byte(documents[0]), &crd.Object))
	require.Equal(t, contract.CRDName(kwokdriver.GVK().GroupKind()), crd.GetName())
}

func TestACallThatHasEndedMakesNothing(t *testing.T) {
	t.Parallel()
	driver, store := newDriver(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := driver.Create(ended, request("uid-1", "m1"))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, store.Requests())
}
