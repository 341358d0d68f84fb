package machineset

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestPartsOfEarlierAttemptsAreRemembered(t *testing.T) {
	t.Parallel()
	bootstrap, infra := schema.GroupVersionKind{Kind: "BootstrapConfig"}, schema.GroupVersionKind{Kind: "InfraMachine"}
	entry := scale.Entry{Slot: 3, Name: "workers-abcde"}
	r := newRecollection()
	r.remember(children.Creation{Entry: entry, Err: errors.New("its answer got lost")}, []schema.GroupVersionKind{bootstrap, infra})
	r.remember(children.Creation{Entry: entry, Err: errors.New("an error")}, []schema.GroupVersionKind{bootstrap})
	require.Equal(t, map[int64]leftParts{3: {entry.Name, []schema.GroupVersionKind{bootstrap, infra}}}, r.left)
	r.remember(children.Creation{Entry: entry}, []schema.GroupVersionKind{bootstrap, infra})
	require.Empty(t, r.left, "a Machine stands for them")
}
