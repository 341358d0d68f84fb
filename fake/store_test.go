package fake_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind()

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string]string{"k": "v"}}
}

func TestFaultsHitTheRequestsTheyMatch(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	store.FailNext(fake.Match("create", configMaps, "a"), errors.New("wire cut"))
	require.ErrorContains(t, c.Create(t.Context(), configMap("a")), "wire cut")
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(configMap("a")), &corev1.ConfigMap{})),
		"it was not applied")

	store.LoseNext(fake.Match("create", configMaps, ""))
	require.ErrorIs(t, c.Create(t.Context(), configMap("a")), io.ErrUnexpectedEOF)
	require.True(t, apierrors.IsAlreadyExists(c.Create(t.Context(), configMap("a"))), "it was applied")

	remove := store.Inject(fake.Fault{Match: fake.Match("delete", schema.GroupKind{}, ""),
		Err: apierrors.NewInternalError(errors.New("down")), Times: -1})
	for range 3 {
		require.True(t, apierrors.IsInternalError(c.Delete(t.Context(), configMap("a"))))
	}
	remove()
	require.NoError(t, c.Delete(t.Context(), configMap("a")))
}

func TestRequestsAreRecordedAsAnAuditLogWould(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	cm := configMap("a")
	require.NoError(t, c.Create(t.Context(), cm))
	require.NoError(t, c.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"w"}}`))))
	require.Error(t, c.Create(t.Context(), configMap("a")))
	require.NoError(t, c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default")))
	type line struct {
		Verb, Name string
		Patch      types.PatchType
		Code       int
	}
	var got []line
	for _, r := range store.Requests() {
		got = append(got, line{r.Verb, r.Name, r.PatchType, r.Code})
	}
	want := []line{{"create", "a", "", 201}, {"patch", "a", types.MergePatchType, 200}, {"create", "a", "", 409}, {"list", "", "", 200}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	store.ResetRequests()
	require.Empty(t, store.Requests())
}

func TestADryRunIsNoWriteWhereverItIsRequested(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
	require.NoError(t, c.Create(t.Context(), pod))
	store.ResetRequests()
	dry := &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, DeleteOptions: dry}
	require.NoError(t, c.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), eviction))
	require.NoError(t, c.Delete(t.Context(), pod, client.DryRunAll))
	require.NoError(t, c.DeleteAllOf(t.Context(), pod, client.InNamespace("default"), client.DryRunAll))
	require.NoError(t, c.Create(t.Context(), configMap("a"), client.DryRunAll))
	require.Zero(t, store.CountRequests(fake.Request.IsWrite), "%v", store.Requests())
	require.Len(t, store.Requests(), 4)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	require.Nil(t, pod.DeletionTimestamp)

	set, err := kubernetes.NewForConfig(store.RESTConfig())
	require.NoError(t, err)
	path := set.CoreV1().RESTClient().Delete().Namespace("default").Resource("pods").Name("p").Param("dryRun", "All")
	require.NoError(t, path.Do(t.Context()).Error())
	require.Zero(t, store.CountRequests(fake.Request.IsWrite))
	require.NoError(t, path.Body(&metav1.DeleteOptions{}).Do(t.Context()).Error()) // a body is all that a delete has
	require.Equal(t, 1, store.CountRequests(fake.Request.IsWrite))
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
}

func TestAWriteThatIsSeenIsAmongTheRequests(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	const writes = 500
	w, err := store.Client().Watch(t.Context(), &corev1.ConfigMapList{})
	require.NoError(t, err)
	defer w.Stop()
	done := make(chan error, writes)
	go func() {
		for i := range writes {
			done <- store.Client().Create(t.Context(), configMap(fmt.Sprint(i)))
		}
	}()
	for i := range writes {
		select {
		case <-w.ResultChan():
		case <-time.After(time.Minute):
			t.Fatal("nothing is seen")
		}
		if n := store.CountRequests(fake.Match("create", configMaps, "")); n <= i {
			t.Errorf("%d objects are seen, %d requests", i+1, n)
		}
		require.NoError(t, <-done)
	}
}

func TestABudgetThatIsNotObservedYetAsksToComeBack(t *testing.T) {
	store := fake.NewStore(fake.Options{}) // no loops: budgets are not observed
	c := store.Client()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{NodeName: "n"},
	}
	minimum := intstr.FromInt(0)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "slow", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &minimum, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}
	for _, obj := range []client.Object{node, pod, budget} {
		require.NoError(t, c.Create(t.Context(), obj))
	}
	pod.Status.Phase = corev1.PodRunning
	require.NoError(t, c.Status().Update(t.Context(), pod))

	set, err := kubernetes.NewForConfig(store.RESTConfig())
	require.NoError(t, err)
	err = set.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("p").SubResource("eviction").MaxRetries(0).
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}).Do(t.Context()).Error()
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	seconds, ok := apierrors.SuggestsClientDelay(err)
	require.True(t, ok)
	require.Equal(t, 10, seconds)
	require.True(t, apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause))
}

func TestObjectsAreNotShared(t *testing.T) {
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: widget}}})
	c := store.Client()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": []any{int64(1)}}}}
	u.SetGroupVersionKind(widget)
	u.SetName("mine")
	u.SetNamespace("default")
	require.NoError(t, c.Create(t.Context(), u))
	before := u.DeepCopy()
	u.Object["spec"].(map[string]any)["list"].([]any)[0] = "spoilt"
	after := before.DeepCopy()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(u), after))
	if diff := cmp.Diff(before.Object, after.Object); diff != "" {
		t.Error(diff)
	}
}

func TestTheSameSeedGivesTheSameUIDs(t *testing.T) {
	uid := func(seed uint64) types.UID {
		cm := configMap("a")
		require.NoError(t, fake.NewStore(fake.Options{Seed: seed}).Client().Create(t.Context(), cm))
		return cm.UID
	}
	require.Equal(t, uid(1), uid(1))
	require.NotEqual(t, uid(1), uid(2))
}

func TestKindsThatCannotBeServedAreRefused(t *testing.T) {
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v2", Kind: "Deployment"}
	store := fake.NewStore(fake.Options{})
	require.ErrorContains(t, store.Register(fake.ServedKind{GVK: schema.GroupVersionKind{Kind: "X"}}), "needs a group")
	require.ErrorContains(t, store.Register(fake.ServedKind{GVK: deployment}), "served already")
	require.NoError(t, store.Register(fake.ServedKind{GVK: widget}))
	for name, crd := range map[string]*unstructured.Unstructured{"a scope": fake.CRD(widget), "a status": fake.CRD(widget)} {
		fake.WithField(map[string]string{"a scope": "Cluster", "a status": "Namespaced"}[name], "spec", "scope")(crd)
		require.ErrorContains(t, store.Client().Create(t.Context(), crd), "another resource, scope or status", name)
	}

	broken := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: deployment}}})
	require.ErrorContains(t, broken.Client().Create(t.Context(), configMap("a")), "served already")
}

func TestOneKindIsServedInSeveralVersions(t *testing.T) {
	beta := widget.GroupKind().WithVersion("v1beta1")
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: widget}, {GVK: beta}}})
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(beta)
	u.SetName("one")
	u.SetNamespace("default")
	require.NoError(t, store.Client().Create(t.Context(), u))
	v1 := &unstructured.Unstructured{}
	v1.SetGroupVersionKind(widget)
	require.NoError(t, store.Client().Get(t.Context(), client.ObjectKeyFromObject(u), v1))
	require.Equal(t, "example.com/v1", v1.GetAPIVersion())
	require.Equal(t, u.GetUID(), v1.GetUID())
}

func TestConcurrentWritersLoseNothing(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	require.NoError(t, c.Create(t.Context(), configMap("shared")))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for {
				cm := configMap("shared")
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
					t.Error(err)
					return
				}
				cm.Data[fmt.Sprint(i)] = "here"
				if err := c.Update(t.Context(), cm); err == nil {
					return
				} else if !apierrors.IsConflict(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	cm := configMap("shared")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(cm), cm))
	require.Len(t, cm.Data, 9)
}

func BenchmarkStorePatchAmongTenThousand(b *testing.B) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	for i := range 10000 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Namespace: "default"},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i%100)},
		}
		require.NoError(b, c.Create(b.Context(), pod))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p7", Namespace: "default"}}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"i":"%d"}}}`, i)
		require.NoError(b, c.Patch(b.Context(), pod, client.RawPatch(types.MergePatchType, patch)))
		var pods corev1.PodList
		require.NoError(b, c.List(b.Context(), &pods, client.MatchingFields{"spec.nodeName": "n7"}))
		require.Len(b, pods.Items, 100)
	}
}

func TestARestoredBackupHasTheObjectsOfItsTime(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	kept, gone := configMap("kept"), configMap("gone")
	require.NoError(t, errors.Join(c.Create(t.Context(), kept), c.Create(t.Context(), gone)))
	backup := store.Backup(configMaps)
	version := kept.ResourceVersion
	uid := gone.UID
	require.NoError(t, c.Patch(t.Context(), kept, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"w"}}`))))
	later := configMap("later")
	later.Finalizers = []string{"example.com/held"}
	require.NoError(t, errors.Join(c.Delete(t.Context(), gone), c.Create(t.Context(), later)))
	require.NoError(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "another-kind", Namespace: "default"}}))

	store.Restore(backup)

	var all corev1.ConfigMapList
	require.NoError(t, c.List(t.Context(), &all))
	require.Len(t, all.Items, 2)
	require.Equal(t, uid, all.Items[0].UID)
	require.Equal(t, "v", all.Items[1].Data["k"])
	require.NotEqual(t, version, all.Items[1].ResourceVersion)
	require.NoError(t, c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "another-kind"}, &corev1.Secret{}))
}

func TestTheDependentsOfAnObjectThatARestoredBackupReplacesAreCollected(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	owner := configMap("owner")
	require.NoError(t, c.Create(t.Context(), owner))
	backup := store.Backup(configMaps)
	require.NoError(t, c.Delete(t.Context(), owner))
	owner = configMap("owner") // of another UID
	require.NoError(t, c.Create(t.Context(), owner))
	dependent := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "dependent", Namespace: "default",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
	}}
	require.NoError(t, c.Create(t.Context(), dependent))
	loops := store.Step(fake.Loops{GarbageCollector: true})
	collect := func() {
		for _, task := range loops.Tasks() {
			loops.Do(task)
		}
	}
	collect()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(dependent), dependent))

	store.Restore(backup)
	collect()

	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(dependent), dependent)))
}

func TestTheDependentsOfOneNameAreOrphanedInTheSameOrderEveryTime(t *testing.T) {
	var kinds []fake.ServedKind
	for _, kind := range []string{"C", "F", "B", "E", "A", "D"} {
		kinds = append(kinds, fake.ServedKind{GVK: widget.GroupVersion().WithKind(kind)})
	}
	var orphaned []string
	store := fake.NewStore(fake.Options{Kinds: kinds, OnEvent: func(obj *unstructured.Unstructured, _ bool) {
		if obj.GetName() == "dependent" && len(obj.GetOwnerReferences()) == 0 {
			orphaned = append(orphaned, obj.GetKind())
		}
	}})
	owner := configMap("owner")
	require.NoError(t, store.Client().Create(t.Context(), owner))
	for _, kind := range kinds {
		dependent := &unstructured.Unstructured{}
		dependent.SetGroupVersionKind(kind.GVK)
		dependent.SetNamespace("default")
		dependent.SetName("dependent")
		dependent.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))})
		require.NoError(t, store.Client().Create(t.Context(), dependent))
	}
	loops := store.Step(fake.Loops{GarbageCollector: true})
	require.NoError(t, store.Client().Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	for _, task := range loops.Tasks() {
		loops.Do(task)
	}
	require.Equal(t, []string{"A", "B", "C", "D", "E", "F"}, orphaned)
}

func TestWhatAWebhookMakesOfAnObjectIsStored(t *testing.T) {
	store := fake.NewStore(fake.Options{Admit: func(obj *unstructured.Unstructured) {
		if obj.GetName() == "a" && obj.GetAPIVersion() == "v1" && obj.GetKind() == "ConfigMap" {
			obj.SetAnnotations(map[string]string{"admitted": obj.GetLabels()["try"]})
		}
	}})
	c, a, b := store.Client(), configMap("a"), configMap("b")
	a.Labels = map[string]string{"try": "create"}
	require.NoError(t, c.Create(t.Context(), a))
	require.NoError(t, c.Create(t.Context(), b))
	require.Equal(t, map[string]string{"admitted": "create"}, a.Annotations)
	require.Empty(t, b.Annotations)
	a.Labels["try"] = "update"
	require.NoError(t, c.Update(t.Context(), a))
	require.Equal(t, map[string]string{"admitted": "update"}, a.Annotations)
	require.NoError(t, c.Patch(t.Context(), a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"try":"patch"}}}`))))
	require.Equal(t, map[string]string{"admitted": "patch"}, a.Annotations)
}

// Nothing recounts here, as while the controller of budgets is behind.
func TestAnEvictionLowersWhatItsBudgetAllows(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c, web := store.Client(), map[string]string{"app": "web"}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: web}},
	}
	require.NoError(t, c.Create(t.Context(), budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 3,
	}
	require.NoError(t, c.Status().Update(t.Context(), budget))
	evict := func(name string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: web}}
		require.NoError(t, c.Create(t.Context(), pod))
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		require.NoError(t, c.Status().Update(t.Context(), pod))
		return c.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{})
	}
	require.NoError(t, evict("a"))
	require.True(t, apierrors.IsTooManyRequests(evict("b")))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(budget), budget))
	require.Zero(t, budget.Status.DisruptionsAllowed)
	require.Contains(t, budget.Status.DisruptedPods, "a")
}
