package apitest

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func createCases() []Case {
	return []Case{
		{"a new object gets UID, version, time and generation from the server", "identity and staleness rest on them", createMetadata},
		{"generateName makes different names", "sets create pods that way", createGenerated},
		{"creating a name again is AlreadyExists with details", "creates are repeated after lost answers", createAgain},
		{"reading what is missing is NotFound with details", "gone is decided on it", readMissing},
		{"creating in a missing namespace is NotFound of the namespace", "the details tell both kinds of NotFound apart", createNoNamespace},
		{"a dry run stores nothing", "previews use it", createDryRun},
		{"a bad name is Invalid", "generated names must be checked before", createBadName},
		{"stringData of a Secret becomes data", "bootstrap data is written that way", createSecret},
		{"typed, unstructured and metadata clients see one object", "an embedder may use any of them", createViews},
	}
}

func createMetadata(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "one", func(u *unstructured.Unstructured) {
		u.SetUID("11111111-1111-4111-8111-111111111111")
		u.SetGeneration(7)
		setField(u, "mine", "status", "phase")
	})
	_, hasStatus := obj.Object["status"]
	e.must(
		holds(len(obj.GetUID()) == 36 && obj.GetUID() != "11111111-1111-4111-8111-111111111111", "UID is %q", obj.GetUID()),
		holds(obj.GetResourceVersion() != "", "there is no resourceVersion"),
		holds(!obj.GetCreationTimestamp().Time.IsZero(), "there is no creationTimestamp"),
		equal("generation", obj.GetGeneration(), 1),
		holds(!hasStatus, "a create could set the status: %v", obj.Object["status"]),
	)
}

func createGenerated(ctx context.Context, e Env) {
	names := map[string]bool{}
	for range 5 {
		cm := e.configMap("")
		cm.GenerateName = "made-"
		e.must(e.Client.Create(ctx, cm))
		names[cm.Name] = strings.HasPrefix(cm.Name, "made-") && len(cm.Name) == len("made-")+5
	}
	for name, ok := range names {
		e.must(holds(ok, "generated name is %q", name))
	}
	e.must(equal("number of names", len(names), 5))
}

func createAgain(ctx context.Context, e Env) {
	e.must(e.Client.Create(ctx, e.configMap("twice")))
	err := e.Client.Create(ctx, e.configMap("twice"))
	e.must(refusal{code: 409, reason: metav1.StatusReasonAlreadyExists, text: `configmaps "twice" already exists`,
		kind: "configmaps"}.check(err))
}

func readMissing(ctx context.Context, e Env) {
	err := e.read(ctx, e.configMap("missing"))
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name != "missing" {
		e.must(holds(false, "details.name is %q", status.ErrStatus.Details.Name))
	}
	e.must(
		refusal{code: 404, reason: metav1.StatusReasonNotFound, kind: "configmaps", text: `configmaps "missing" not found`}.check(err),
		refusal{code: 404, reason: metav1.StatusReasonNotFound, kind: "configmaps"}.check(e.Client.Update(ctx, e.configMap("missing"))),
		refusal{code: 404, reason: metav1.StatusReasonNotFound, kind: "configmaps"}.check(e.Client.Delete(ctx, e.configMap("missing"))),
	)
}

func createNoNamespace(ctx context.Context, e Env) {
	cm := e.configMap("one")
	cm.Namespace = e.Namespace + "-missing"
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound, kind: "namespaces"}.check(e.Client.Create(ctx, cm)))
}

func createDryRun(ctx context.Context, e Env) {
	cm := e.configMap("dry")
	e.must(e.Client.Create(ctx, cm, client.DryRunAll))
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, cm)))
}

func createBadName(ctx context.Context, e Env) {
	e.must(refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "metadata.name", cause: metav1.CauseTypeFieldValueInvalid}.
		check(e.Client.Create(ctx, e.configMap("Not_A_Name"))))
}

func createSecret(ctx context.Context, e Env) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: e.Namespace}, StringData: map[string]string{"value": "data"}}
	e.must(e.Client.Create(ctx, secret))
	e.must(e.read(ctx, secret))
	e.must(equal("data", string(secret.Data["value"]), "data"), equal("type", secret.Type, corev1.SecretTypeOpaque),
		equal("stringData entries", len(secret.StringData), 0))
}

func createViews(ctx context.Context, e Env) {
	cm := e.configMap("seen")
	cm.Labels = map[string]string{"a": "b"}
	e.must(e.Client.Create(ctx, cm))
	u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	key := client.ObjectKeyFromObject(cm)
	e.must(e.Client.Get(ctx, key, u), e.Client.Get(ctx, key, m))
	value, _, _ := unstructured.NestedString(u.Object, "data", "k")
	var typed corev1.ConfigMapList
	metas := &metav1.PartialObjectMetadataList{}
	metas.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	selection := []client.ListOption{client.InNamespace(e.Namespace), client.MatchingLabels{"a": "b"}}
	e.must(e.Client.List(ctx, &typed, selection...), e.Client.List(ctx, metas, selection...))
	e.must(holds(len(typed.Items) == 1 && len(metas.Items) == 1, "lists hold %d and %d objects, want 1 and 1",
		len(typed.Items), len(metas.Items)))
	e.must(
		equal("unstructured UID", u.GetUID(), cm.UID), equal("metadata UID", m.UID, cm.UID), equal("data", value, "v"),
		equal("kind of a typed list item", typed.Items[0].Kind, ""), equal("listed UID", metas.Items[0].UID, cm.UID),
	)
}
