package contract_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

const provisionedMachine = `{
	"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"TestMachine","metadata":{"namespace":"default","name":"m1"},
	"spec":{"providerID":"test://region/1","count":70000,"annotated":true},
	"status":{
		"initialization":{"provisioned":true},"ready":true,"failureDomain":"a","big":5000000000,
		"addresses":[{"type":"InternalIP","address":"10.0.0.1"},{"type":"Hostname","address":"m1"}],
		"conditions":[{"type":"Paused","status":"False","reason":"NotPaused"},
			{"type":"Ready","status":"True","reason":"Up","message":"m","observedGeneration":300,"lastTransitionTime":"2026-03-01T12:00:00Z"}]
	}
}`

func allocations(t *testing.T, name string, want float64, run func()) {
	t.Helper()
	require.Equal(t, want, testing.AllocsPerRun(100, run), "allocations of %s", name)
}

func fieldAllocatesNothing[T scalarValue](t *testing.T, obj map[string]any, hit contract.Field[T], misses ...contract.Field[T]) {
	t.Helper()
	var sink T
	for i, f := range append(misses, hit) {
		_, found, err := f.Get(obj)
		require.NoError(t, err)
		require.Equal(t, i == len(misses), found, "whether %s is there", f.Path())
		allocations(t, f.Path().String(), 0, func() { sink, _, _ = f.Get(obj) })
	}
	_ = sink
}

func TestField_GetAllocatesNothing(t *testing.T) {
	obj := parseJSON(t, provisionedMachine)
	obj["metadata"].(map[string]any)["annotations"] = map[string]any{"text": "t", "flag": "true", "small": "70000", "big": "5000000000"}
	fieldAllocatesNothing(t, obj, contract.At[string]("spec", "providerID"), contract.At[string]("spec", "x"), contract.At[string]("x", "y"),
		contract.Field[string]{})
	fieldAllocatesNothing(t, obj, contract.At[bool]("status", "initialization", "provisioned"))
	fieldAllocatesNothing(t, obj, contract.At[int32]("spec", "count"))
	fieldAllocatesNothing(t, obj, contract.At[int64]("status", "big"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[string]("text"), contract.AtAnnotation[string]("x"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[bool]("flag"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[int32]("small"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[int64]("big"))
}

func TestConditions_OfAnUpdateAreOneAllocation(t *testing.T) {
	var have, want []metav1.Condition
	for _, kind := range []string{"Available", "Deleting", "InfrastructureReady", "NodeReady", "Paused", "Ready", "Updating"} {
		have = append(have, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "A"})
		want = append(want, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "B"})
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	allocations(t, "unchanged conditions", 0, func() { _ = contract.ChangedConditions(have, have, 0, time.Time{}) })
	allocations(t, "changed conditions", 1, func() { _ = contract.ChangedConditions(have, want, 0, now) })
	allocations(t, "updated conditions", 1, func() { _ = contract.UpdatedConditions(have, want, nil) })
	allocations(t, "new conditions", 1, func() { _ = contract.UpdatedConditions(nil, want, nil) })
}
