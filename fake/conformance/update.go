package conformance

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func updateCases() []Case {
	return []Case{
		{"an update of an old version is a Conflict", "lost updates", updateStale},
		{"an update without a version needs a kind that allows it", "custom kinds do not", updateUnconditional},
		{"an update with another UID is a Conflict that names the precondition", "a name may belong to another object by now", updateForeign},
		{"an update that changes nothing keeps the version", "no write, no event", updateNoop},
		{"only changes of the wanted state count as generations", "observedGeneration", updateGeneration},
		{"without a status subresource every change outside metadata is a generation", "embedders' older CRDs", updateGenerationPlain},
		{"an object cannot be renamed", "the URL decides", updateRename},
		{"an update cannot set a deletion timestamp", "only a delete can", updateDeletion},
		{"system fields survive an update that leaves them out", "creation time and UID", updateSystemFields},
	}
}

func updateStale(ctx context.Context, e Env) error {
	cm := e.configMap("stale")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	old := cm.DeepCopy()
	cm.Data["k"] = "new"
	old.Data["k"] = "late"
	if err := e.Client.Update(ctx, cm); err != nil {
		return err
	}
	return refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the object has been modified", kind: "configmaps"}.check(e.Client.Update(ctx, old))
}

func updateUnconditional(ctx context.Context, e Env) error {
	cm := e.configMap("free")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	cm.ResourceVersion, cm.Data["k"] = "", "new"
	if err := e.Client.Update(ctx, cm); err != nil {
		return err
	}
	obj, err := e.custom(ctx, withStatus, "bound")
	if err != nil {
		return err
	}
	obj.SetResourceVersion("")
	return refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "metadata.resourceVersion"}.check(e.Client.Update(ctx, obj))
}

func updateForeign(ctx context.Context, e Env) error {
	cm := e.configMap("foreign")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	cm.UID = "22222222-2222-4222-8222-222222222222"
	return refusal{code: 409, reason: metav1.StatusReasonConflict, text: "Precondition failed: UID in precondition"}.check(e.Client.Update(ctx, cm))
}

func updateNoop(ctx context.Context, e Env) error {
	cm := e.configMap("same")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	version := cm.ResourceVersion
	steps := first(
		func() error { return e.Client.Update(ctx, cm) },
		func() error {
			return e.Client.Patch(ctx, cm, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"v"},"metadata":{"labels":null}}`)))
		},
		func() error { return e.read(ctx, cm) },
	)
	return errors.Join(steps, equal("version", cm.ResourceVersion, version))
}

func updateGeneration(ctx context.Context, e Env) error {
	obj, err := e.custom(ctx, withStatus, "counted")
	if err != nil {
		return err
	}
	return first(
		func() error {
			obj.SetLabels(map[string]string{"a": "b"})
			return errors.Join(e.Client.Update(ctx, obj), equal("generation after a label", obj.GetGeneration(), 1))
		},
		func() error {
			setField(obj, "x", "status", "phase")
			return errors.Join(e.Client.Status().Update(ctx, obj), equal("generation after a status", obj.GetGeneration(), 1))
		},
		func() error {
			setField(obj, int64(2), "spec", "size")
			return errors.Join(e.Client.Update(ctx, obj), equal("generation after the spec", obj.GetGeneration(), 2))
		},
		func() error {
			setField(obj, "x", "other")
			return errors.Join(e.Client.Update(ctx, obj), equal("generation after another field", obj.GetGeneration(), 3))
		},
		func() error {
			obj.SetGeneration(9)
			obj.SetLabels(nil)
			return errors.Join(e.Client.Update(ctx, obj), equal("generation after a client's own", obj.GetGeneration(), 3))
		},
	)
}

func updateGenerationPlain(ctx context.Context, e Env) error {
	obj, err := e.custom(ctx, withoutStatus, "counted", func(u *unstructured.Unstructured) { setField(u, "start", "status", "phase") })
	if err != nil {
		return err
	}
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	return first(
		func() error { return equal("status after create", phase, "start") },
		func() error {
			setField(obj, "x", "status", "phase")
			return errors.Join(e.Client.Update(ctx, obj), equal("generation after a status", obj.GetGeneration(), 2))
		},
		func() error {
			setField(obj, "y", "status", "phase")
			return refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.Client.Status().Update(ctx, obj))
		},
	)
}

func updateRename(ctx context.Context, e Env) error {
	cm := e.configMap("named")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	err := e.Client.Patch(ctx, cm, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"name":"other"}}`)))
	return refusal{code: 400, reason: metav1.StatusReasonBadRequest, text: "does not match the name on the URL"}.check(err)
}

func updateDeletion(ctx context.Context, e Env) error {
	cm := e.configMap("kept")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	now := metav1.NewTime(time.Now())
	cm.DeletionTimestamp = &now
	return refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "metadata.deletionTimestamp"}.check(e.Client.Update(ctx, cm))
}

func updateSystemFields(ctx context.Context, e Env) error {
	cm := e.configMap("bare")
	if err := e.Client.Create(ctx, cm); err != nil {
		return err
	}
	bare := e.configMap("bare")
	bare.Data["k"] = "new"
	if err := e.Client.Update(ctx, bare); err != nil {
		return err
	}
	return errors.Join(equal("UID", bare.UID, cm.UID), holds(bare.CreationTimestamp.Equal(&cm.CreationTimestamp), "the creation time changed"))
}
