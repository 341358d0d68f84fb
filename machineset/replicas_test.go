package machineset_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

func TestASetWithoutReplicasKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{})
	without := func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") }
	set := w.set("workers", 7, without, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.MinSizeAnnotation: "2"})
	})
	w.create(set)
	w.has(set, 2)
	w.scale(set, 4)
	w.has(set, 4)
	w.change(set, without)
	w.eventually("its present number", func() string {
		if n, _, _ := unstructured.NestedInt64(w.get(set).Object, "spec", "replicas"); n != 4 {
			return w.describe(set)
		}
		return ""
	})
	one := w.machines()[0]
	require.NoError(t, w.client.Delete(t.Context(), &one))
	w.Gone(&one)
	w.has(set, 4)
}
