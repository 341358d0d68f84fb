package cluster

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vault stores Secrets: metadata to watch, and data to read.
type vault struct {
	*cluster

	mu      sync.Mutex
	secrets map[types.NamespacedName]*corev1.Secret
	reads   int
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{cluster: clusterOf(t, "Secret", meta.RESTScopeNamespace), secrets: map[types.NamespacedName]*corev1.Secret{}}
	v.start(t)
	return v
}

// Get implements client.Reader.
func (v *vault) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	secret, ok := obj.(*corev1.Secret)
	if have := v.secrets[key]; ok && have != nil {
		have.DeepCopyInto(secret)
		return nil
	}
	return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
}

// List implements client.Reader.
func (v *vault) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (v *vault) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reads
}

// write stores a Secret and returns its metadata.
func (v *vault) write(uid string, data map[string][]byte, labels map[string]string) *metav1.PartialObjectMetadata {
	v.mu.Lock()
	defer v.mu.Unlock()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-kubeconfig", UID: types.UID(uid), Labels: labels}, Data: data,
	}
	v.secrets[client.ObjectKeyFromObject(secret)] = secret
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: *secret.ObjectMeta.DeepCopy(),
	}
}

func (v *vault) remove() *metav1.PartialObjectMetadata {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.secrets, types.NamespacedName{Namespace: "default", Name: "a-kubeconfig"})
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-kubeconfig"},
	}
}

func TestAClusterFollowsItsKubeconfigSecret(t *testing.T) {
	v, s := newVault(t), newAPIServer(t)
	secrets := &Secrets{layout: SecretLayout{}.complete(), informers: v.cache, reader: v}
	w := newWorld(t, Options[*nodes]{Access: secrets})

	err := w.becomes(keyA, ReasonNoKubeconfig)
	require.ErrorIs(t, err, ErrNoKubeconfig)
	require.ErrorContains(t, err, "Secret default/a-kubeconfig does not exist")
	require.Equal(t, 1, v.count())

	t.Log("it is created")
	v.Add(v.write("u1", map[string][]byte{KubeconfigKey: s.kubeconfig("t1")}, nil))
	first := w.connected(keyA) // the clock stands: nothing was polled
	reads := v.count()

	t.Log("it gets a label")
	v.Modify(v.write("u1", map[string][]byte{KubeconfigKey: s.kubeconfig("t1")}, map[string]string{"x": "y"}))
	w.eventually("it was read", func() bool { return v.count() > reads })
	require.Same(t, first.Value, w.connected(keyA).Value)
	require.Equal(t, 1, s.count("GET /readyz"), "the same kubeconfig changes nothing")

	t.Log("it is rotated")
	s.accept("t1", "t2")
	v.Modify(v.write("u1", map[string][]byte{KubeconfigKey: s.kubeconfig("t2")}, nil))
	w.eventually("the new token is taken up", func() bool { return s.credentials("GET /readyz") == "t2" })
	second := w.connected(keyA)
	require.Same(t, first.Value, second.Value, "only the token is new")
	s.put("n1")
	w.eventually("requests carry it", func() bool {
		return patchNode(t, second.Cluster.GetClient(), "n1") == nil && s.credentials("PATCH /api/v1/nodes/n1") == "t2"
	})

	t.Log("it is broken, and mended")
	v.Modify(v.write("u1", map[string][]byte{"other": nil}, nil))
	w.eventually("a problem", func() bool { return w.get(keyA).Problem != nil })
	require.ErrorIs(t, w.get(keyA).Problem, errInvalidKubeconfig)
	require.Empty(t, w.get(keyA).Reason)
	require.ErrorContains(t, w.get(keyA).Problem, `Secret default/a-kubeconfig has no data key "value"`)
	v.Modify(v.write("u1", map[string][]byte{KubeconfigKey: s.kubeconfig("t2")}, nil))
	w.eventually("no problem", func() bool { return w.get(keyA).Problem == nil })
	require.Same(t, second.Value, w.get(keyA).Value)

	t.Log("it is deleted and created again while the watch is broken: another cluster of the same name")
	s.accept("t2", "t3")
	s.mu.Lock()
	s.uid = "second"
	s.mu.Unlock()
	v.DeleteDropWatch(v.remove())
	v.AddDropWatch(v.write("u2", map[string][]byte{KubeconfigKey: s.kubeconfig("t3")}, nil))
	v.ResetWatch()
	w.eventually("there is a new connection", func() bool { view := w.get(keyA); return view.Reason == "" && view.Value != second.Value })

	t.Log("it is deleted")
	v.Delete(v.remove())
	require.Error(t, w.becomes(keyA, ReasonNoKubeconfig))
	w.eventually("nothing is open", func() bool { return s.pending("") == 0 })
}

func TestAnUnsafeSecretIsNamed(t *testing.T) {
	v := newVault(t)
	v.write("u1", map[string][]byte{KubeconfigKey: []byte(kubeconfigWith("server: https://example.com", "exec: {command: x}"))}, nil)
	secrets := &Secrets{layout: SecretLayout{}.complete(), informers: v.cache, reader: v}
	_, err := secrets.Target(t.Context(), keyA)
	require.ErrorIs(t, err, ErrUnsafeKubeconfig)
	require.ErrorContains(t, err, "Secret default/a-kubeconfig")
}

func TestOnlyKubeconfigSecretsConcernACluster(t *testing.T) {
	own := SecretLayout{Prefix: "access.", Key: "config", Label: "example.com/access"}
	tests := map[string]struct {
		layout SecretLayout
		obj    any
		want   string
	}{
		"a kubeconfig":            {obj: &metav1.ObjectMeta{Namespace: "n", Name: "c-kubeconfig"}, want: "n/c"},
		"of a dashed name":        {obj: &metav1.ObjectMeta{Namespace: "n", Name: "c-kubeconfig-kubeconfig"}, want: "n/c-kubeconfig"},
		"a tombstone":             {obj: toolscache.DeletedFinalStateUnknown{Key: "n/c-kubeconfig"}, want: "n/c"},
		"another Secret":          {obj: &metav1.ObjectMeta{Namespace: "n", Name: "c-ca"}},
		"the suffix alone":        {obj: &metav1.ObjectMeta{Namespace: "n", Name: "-kubeconfig"}},
		"something else at all":   {obj: "x"},
		"an own layout":           {own, &metav1.ObjectMeta{Namespace: "n", Name: "access.c"}, "n/c"},
		"another layout than own": {own, &metav1.ObjectMeta{Namespace: "n", Name: "c-kubeconfig"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := tc.layout.complete().clusterOf(tc.obj)
			require.Equal(t, tc.want != "", ok)
			if ok {
				require.Equal(t, tc.want, got.String())
			}
		})
	}
}

func TestAnOwnLayoutKeepsNotifications(t *testing.T) {
	v, s := newVault(t), newAPIServer(t)
	layout := SecretLayout{Suffix: "-kubeconfig", Key: "config", Label: "example.com/access"}
	w := newWorld(t, Options[*nodes]{Access: &Secrets{layout: layout.complete(), informers: v.cache, reader: v}})
	err := w.becomes(keyA, ReasonNoKubeconfig)
	require.ErrorContains(t, err, "with label example.com/access=a and data key config")
	v.Add(v.write("u1", map[string][]byte{"config": s.kubeconfig("t1")}, nil))
	w.connected(keyA) // the clock stands: nothing was polled
}
