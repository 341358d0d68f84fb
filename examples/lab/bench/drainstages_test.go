package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kwok takes a delay that it cannot read for none, and then pods would go at once.
func TestStagesReadTheDelaysThatPodsHave(t *testing.T) {
	annotations := delayAnnotations(10*time.Second, 1500*time.Millisecond)
	want := map[string]string{"pod-delete": "10s", "pod-ready": "1.5s"}
	for _, document := range stages() {
		stage := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &stage.Object), document)
		expression, _, err := unstructured.NestedString(stage.Object, "spec", "delay", "durationFrom", "expressionFrom")
		require.NoError(t, err)
		found := ""
		for key, value := range annotations {
			if expression == `.metadata.annotations["`+key+`"]` {
				found = value
			}
		}
		require.Equal(t, want[stage.GetName()], found, stage.GetName())
		_, err = time.ParseDuration(found)
		require.NoError(t, err)
	}
}
