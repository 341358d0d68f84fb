package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/internal/engine"
)

func TestSpareUnread(t *testing.T) {
	t.Run("a condition stays for a grace while what it is about is unread, and no longer", func(t *testing.T) {
		stored := []metav1.Condition{engine.Condition("NodeReady", metav1.ConditionTrue, "Ready", "")}
		asserted := []metav1.Condition{engine.Condition("NodeReady", metav1.ConditionUnknown, "Unread", "")}
		unread := func(c metav1.Condition) bool { return c.Reason == "Unread" }
		began, since := time.Unix(1000, 0), time.Time{}
		pass := func(after time.Duration, asserted []metav1.Condition) *scope {
			s := &scope{}
			s.Now, s.Stored, s.Asserted = began.Add(after), stored, slices.Clone(asserted)
			s.SpareUnread(unread, &since, time.Minute)
			return s
		}
		for after, want := range []time.Duration{time.Minute, 59 * time.Second} {
			s := pass(time.Duration(after)*time.Second, asserted)
			require.Empty(t, s.Asserted)
			require.Equal(t, want, s.RequeueAfter())
		}
		s := pass(time.Minute, asserted)
		require.Equal(t, asserted, s.Asserted)
		require.Zero(t, s.RequeueAfter())
		pass(time.Hour, stored)
		require.Zero(t, since, "once it is read the next grace begins anew")
	})
}
