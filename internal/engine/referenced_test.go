package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestAFailureNamesTheObjectThatReportsItAndIsCutToWhatTheServerAccepts(t *testing.T) {
	t.Parallel()
	e := external.Object{Ref: contract.Ref{Name: "mine"}, GVK: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Infra"}}
	require.Equal(t, Failure{}, FailureOf(e, "", ""))
	require.Equal(t, Failure{"Broken", `Failure detected from referenced resource g/v1, Kind=Infra with name "mine": no quota`},
		FailureOf(e, "Broken", "no quota"))
	long := FailureOf(e, strings.Repeat("r", 300), strings.Repeat("m", 2*MaxMessageLength))
	require.LessOrEqual(t, len(long.Reason), 256, "the limit of the schema")
	require.True(t, strings.HasSuffix(long.Message, "m ..."))
}
