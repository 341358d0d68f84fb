package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/internal/engine"
)

func TestSpareUnread(t *testing.T) {
	t.Run("a condition stays for a grace while what it is about is unread, and no longer", func(t *testing.T) {
		stored := []metav1.Condition{engine.Condition("NodeReady", metav1.ConditionTrue, "Ready", "")}
		asserted := func() []metav1.Condition {
			return []metav1.Condition{engine.Condition("NodeReady", metav1.ConditionUnknown, "Unread", "")}
		}
		unread := func(c metav1.Condition) bool { return c.Reason == "Unread" }
		began, since := time.Unix(1000, 0), time.Time{}
		for after, want := range []time.Duration{time.Minute, 59 * time.Second} {
			kept, left := engine.SpareUnread(stored, asserted(), unread, &since, began.Add(time.Duration(after)*time.Second), time.Minute)
			require.Empty(t, kept)
			require.Equal(t, want, left)
		}
		kept, left := engine.SpareUnread(stored, asserted(), unread, &since, began.Add(time.Minute), time.Minute)
		require.Equal(t, asserted(), kept)
		require.Zero(t, left)
		_, _ = engine.SpareUnread(stored, stored, unread, &since, began.Add(time.Hour), time.Minute)
		require.Zero(t, since, "once it is read the next grace begins anew")
	})
}
