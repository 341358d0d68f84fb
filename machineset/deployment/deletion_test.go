package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestAnOldSetThatHasChangedSinceItWasReadIsNotDeleted(t *testing.T) {
	t.Parallel()
	read := func(name string) *set {
		one := &set{}
		one.Metadata = &contract.Metadata{UID: types.UID(name), ResourceVersion: "1"}
		return one
	}
	is := func(uid types.UID, version string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	due := []rollout.Ref{{Name: "a", UID: "a"}, {Name: "b", UID: "b"}, {Name: "c", UID: "c"}, {Name: "d", UID: "d"}}
	live := map[string]metav1.PartialObjectMetadata{"a": is("a", "1"), "b": is("b", "2"), "c": is("other", "1")}
	got := unchanged(due, []*set{read("a"), read("b"), read("c"), read("d")}, live)
	require.Equal(t, []scale.Victim{{Name: "a", UID: "a"}}, got, "b was scaled, c is another one, and d is gone")
}
