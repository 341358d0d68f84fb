package patch_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/internal/patch"
)

func TestAWriterPatchesTheStatusOnlyIfItIsASubresource(t *testing.T) {
	t.Parallel()
	servers := schema.GroupResource{Group: "example.com", Resource: "servers"}
	require.Equal(t, []string{"servers", "servers/status"}, patch.PolicyRules(servers, true)[0].Resources)
	require.Equal(t, []string{"servers"}, patch.PolicyRules(servers, false)[0].Resources)
}
