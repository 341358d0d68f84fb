package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const twoStages = `
kind: Stage
metadata: {name: pod-ready}
spec: {next: {}}
---
kind: Stage
metadata: {name: pod-delete}
spec: {next: {delete: true}}
`

func TestExtraStagesReplaceThoseOfTheSameNameAndTheRestKeepTheirPlace(t *testing.T) {
	stages, err := mergeStages(twoStages, []string{
		"kind: Stage\nmetadata: {name: pod-ready}\nspec: {weight: 7}\n",
		"kind: Stage\nmetadata: {name: mine}\nspec: {}\n",
	}, 1500*time.Millisecond)
	require.NoError(t, err)
	got := map[string]any{}
	names := []string{}
	for _, stage := range stages {
		names = append(names, stage.GetName())
		got[stage.GetName()], _, _ = unstructured.NestedMap(stage.Object, "spec")
	}
	require.Equal(t, []string{"pod-delete", "pod-ready", "mine"}, names)
	want := map[string]any{
		"pod-delete": map[string]any{
			"next":  map[string]any{"delete": true},
			"delay": map[string]any{"durationMilliseconds": int64(1500)},
		},
		"pod-ready": map[string]any{"weight": float64(7)},
		"mine":      map[string]any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestADocumentThatIsNoStageIsRefused(t *testing.T) {
	for name, document := range map[string]string{
		"another kind": "kind: Pod\nmetadata: {name: a}\n",
		"no name":      "kind: Stage\n",
		"no YAML":      "{",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mergeStages(twoStages, []string{document}, 0)
			require.ErrorContains(t, err, "ExtraStages[0]")
		})
	}
}

func TestOptionsThatCannotWorkAreRefusedBeforeAnythingIsBuilt(t *testing.T) {
	for name, options := range map[string]Options{
		"leaving out etcd":         {Without: []Component{Etcd}},
		"leaving out something":    {Without: []Component{"kubelet"}},
		"unknown component":        {ExtraArgs: map[Component][]string{"kubelet": {"--v=1"}}},
		"a negative termination":   {PodTermination: -time.Second},
		"a selector that is wrong": {ManagedNodes: "a in b"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), options)
			require.ErrorContains(t, err, "option ")
		})
	}
}
