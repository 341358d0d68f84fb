package machineset_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

func TestALabelReachesMachinesOfASharedClassAndNotTheClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{Shared: func(ref contract.Ref) bool { return ref.Kind == infraGVK().Kind }})
	class := object(infraGVK(), "small")
	set := w.set("workers", 2, fake.WithField(map[string]any{
		"bootstrap":         map[string]any{"dataSecretName": "data"},
		"infrastructureRef": map[string]any{"apiGroup": infraGVK().Group, "kind": infraGVK().Kind, "name": "small"},
	}, "spec", "template", "spec"))
	w.create(class, set)
	w.eventually("two Machines", func() string {
		if n, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "readyReplicas"); n != 2 {
			return w.describe(set)
		}
		return ""
	})
	before := w.get(class).GetResourceVersion()
	w.change(set, fake.WithField("b", "spec", "template", "metadata", "labels", "tier"))
	w.eventually("the label", func() string {
		for _, m := range w.machines() {
			if m.GetLabels()["tier"] != "b" {
				return fmt.Sprint(m.GetLabels())
			}
		}
		if n, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "deprecated", "v1beta1", "fullyLabeledReplicas"); n != 2 {
			return w.describe(set)
		}
		return ""
	})
	w.Quiet(userAgent, 200*time.Millisecond)
	require.Equal(t, before, w.get(class).GetResourceVersion(), "nobody writes to the class")
}
