package apitest

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func deleteCases() []Case {
	return []Case{
		{"a delete with another UID is a Conflict and deletes nothing", "every destructive call carries a UID", deleteForeign},
		{"a delete with an old version is a Conflict", "decided on what was read", deleteStale},
		{"an object with finalizers stays until the last one is removed", "clean-up comes first", deleteFinalizers},
		{"an object that is being deleted takes no new finalizer", "a finalizer that comes late is no protection", deleteNewFinalizer},
		{"an update that removes the last finalizer removes the object", "the answer has the version from before", deleteByUpdate},
		{"a pod without a node goes at once", "there is no kubelet to wait for", deleteUnboundPod},
		{"a bound pod gets its grace period", "the kubelet ends it", deleteBoundPod},
		{"deleting all of a selection deletes only it", "clean-up by label", deleteAllOf},
		{"a dry run of a delete deletes nothing", "previews", deleteDry},
		{"a delete refuses options that it does not know", "a typo is no dry run", deleteBadOptions},
	}
}

func deleteForeign(ctx context.Context, e Env) error {
	cm := e.configMap("kept")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	err := e.Client.Delete(ctx, cm, client.Preconditions{UID: ptr.To[types.UID]("22222222-2222-4222-8222-222222222222")})
	return errors.Join(
		refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the UID in the precondition"}.check(err),
		e.read(ctx, cm), e.Client.Delete(ctx, cm, client.Preconditions{UID: &cm.UID}), e.gone(ctx, cm),
	)
}

func deleteStale(ctx context.Context, e Env) error {
	cm := e.configMap("kept")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	old := cm.ResourceVersion
	cm.Data["k"] = "new"
	if err := e.Client.Update(ctx, cm); err != nil {
		return err
	}
	err := e.Client.Delete(ctx, cm, client.Preconditions{ResourceVersion: &old})
	return refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the ResourceVersion in the precondition"}.check(err)
}

func deleteFinalizers(ctx context.Context, e Env) error {
	obj, err := e.custom(ctx, withStatus, "held")
	if err != nil {
		return err
	}
	return first(
		func() error {
			return e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`)
		},
		func() error { return e.Client.Delete(ctx, obj) },
		func() error { return e.Client.Delete(ctx, obj) },
		func() error { return e.read(ctx, obj) },
		func() error {
			return errors.Join(holds(obj.GetDeletionTimestamp() != nil, "there is no deletion timestamp"),
				equal("grace", ptr.Deref(obj.GetDeletionGracePeriodSeconds(), -1), 0), equal("generation", obj.GetGeneration(), 2))
		},
		func() error {
			return e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"finalizers":["example.com/b"]}}`)
		},
		func() error { return e.read(ctx, obj) },
		func() error { return e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"finalizers":null}}`) },
		func() error { return refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, obj)) },
	)
}

func deleteNewFinalizer(ctx context.Context, e Env) error {
	cm := e.configMap("held")
	cm.Finalizers = []string{"example.com/a"}
	return first(
		func() error { return e.Client.Create(ctx, cm) },
		func() error { return e.Client.Delete(ctx, cm) },
		func() error {
			err := e.patch(ctx, cm, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`)
			return refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "no new finalizers can be added",
				cause: metav1.CauseTypeForbidden}.check(err)
		},
		func() error { return e.patch(ctx, cm, types.MergePatchType, `{"metadata":{"finalizers":null}}`) },
	)
}

func deleteByUpdate(ctx context.Context, e Env) error {
	cm := e.configMap("held")
	cm.Finalizers = []string{"example.com/a"}
	return first(
		func() error { return e.Client.Create(ctx, cm) },
		func() error { return e.Client.Delete(ctx, cm) },
		func() error { return e.read(ctx, cm) },
		func() error {
			version := cm.ResourceVersion
			cm.Finalizers = nil
			err := e.Client.Update(ctx, cm)
			if err == nil && (cm.ResourceVersion != version || cm.DeletionTimestamp == nil || len(cm.Finalizers) > 0) {
				return fmt.Errorf("answered with %v, want the object as it was at version %s, without the finalizer", cm.ObjectMeta, version)
			}
			return err
		},
		func() error { return refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, cm)) },
	)
}

func deleteUnboundPod(ctx context.Context, e Env) error {
	pod := e.pod("unbound", nil)
	pod.Spec.NodeSelector = map[string]string{"conformance": "nowhere"}
	return first(
		func() error { return e.createPod(ctx, pod) },
		func() error { return e.Client.Delete(ctx, pod) },
		func() error { return refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, pod)) },
	)
}

func deleteBoundPod(ctx context.Context, e Env) error {
	node, err := e.node(ctx, "n", false)
	if err != nil {
		return err
	}
	pod := e.pod("bound", nil)
	pod.Spec.NodeName = node.Name
	pod.Finalizers = []string{"example.com/a"}
	return first(
		func() error { return e.createPod(ctx, pod) },
		func() error { return e.Client.Delete(ctx, pod, client.GracePeriodSeconds(20)) },
		func() error { return e.read(ctx, pod) },
		func() error { return holds(pod.DeletionTimestamp != nil, "there is no deletion timestamp") },
		func() error { return e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`) },
		func() error { return e.gone(ctx, pod) },
	)
}

func deleteAllOf(ctx context.Context, e Env) error {
	for _, name := range []string{"a", "b", "c"} {
		cm := e.configMap(name)
		cm.Labels = map[string]string{"pick": map[string]string{"a": "yes", "b": "yes", "c": "no"}[name]}
		if err := e.Client.Create(ctx, cm); err != nil {
			return err
		}
	}
	err := e.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(e.Namespace), client.MatchingLabels{"pick": "yes"})
	if err != nil {
		return err
	}
	var left corev1.ConfigMapList
	if err := e.Client.List(ctx, &left, client.InNamespace(e.Namespace), client.HasLabels{"pick"}); err != nil {
		return err
	}
	return equal("objects left", len(left.Items), 1)
}

func deleteDry(ctx context.Context, e Env) error {
	cm, held := e.configMap("kept"), e.configMap("held")
	held.Finalizers = []string{"example.com/a"}
	return first(
		func() error { return e.Client.Create(ctx, cm) },
		func() error { return e.Client.Create(ctx, held) },
		func() error { return e.Client.Delete(ctx, cm, client.DryRunAll) },
		func() error { return e.Client.Delete(ctx, held, client.DryRunAll) },
		func() error {
			return e.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(e.Namespace), client.DryRunAll)
		},
		func() error { return errors.Join(e.read(ctx, cm), e.read(ctx, held)) },
		func() error {
			return holds(held.DeletionTimestamp == nil, "the object with a finalizer is being deleted")
		},
		func() error { return e.patch(ctx, held, types.MergePatchType, `{"metadata":{"finalizers":null}}`) },
	)
}

func deleteBadOptions(ctx context.Context, e Env) error {
	cm := e.configMap("kept")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	bad := refusal{code: 422, reason: metav1.StatusReasonInvalid, cause: metav1.CauseTypeFieldValueNotSupported}
	return errors.Join(
		bad.check(e.Client.Delete(ctx, cm, &client.DeleteOptions{DryRun: []string{"Some"}})),
		bad.check(e.Client.Delete(ctx, cm, client.PropagationPolicy("Sideways"))),
		e.read(ctx, cm),
	)
}
