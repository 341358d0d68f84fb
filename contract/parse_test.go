package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/machinist-dev/machinist/contract"
)

// parseJSON decodes an object as the API machinery does: integers become int64.
func parseJSON(t testing.TB, text string) map[string]any {
	t.Helper()
	var content map[string]any
	require.NoError(t, utiljson.Unmarshal([]byte(text), &content))
	return content
}

func parseObject(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: parseJSON(t, text)}
}

// diffStates compares states; absent and empty slices and maps are the same to every reader.
func diffStates(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), optsOf[bool](), optsOf[string](), optsOf[int32](), optsOf[int64](),
		optsOf[metav1.Condition](), optsOf[time.Duration](), optsOf[intstr.IntOrString]())
}

func optsOf[T any]() cmp.Option { return cmp.AllowUnexported(contract.Opt[T]{}) }
