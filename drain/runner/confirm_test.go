package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// frozenSource shows of each Node what was there when its watch began, as a process does that was stopped since.
type frozenSource struct {
	*memorySource

	watches map[string][]*corev1.Pod
	begun   int
}

func (s *frozenSource) Pods(node string) ([]*corev1.Pod, bool, error) {
	if _, watched := s.watches[node]; !watched {
		s.watches[node], _, _ = s.memorySource.Pods(node)
		s.begun++
	}
	return s.watches[node], true, nil
}

func (s *frozenSource) Release(node string) { delete(s.watches, node) }

// A scheduler that was late binds a Pod right after the cordon. Then the process is stopped, or its connection carries nothing, until the
// settle time is over.
func TestADrainIsDoneOnlyByAListThatIsMadeAfterTheSettleTime(t *testing.T) {
	source := &frozenSource{
		memorySource: &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}}, watches: map[string][]*corev1.Pod{},
	}
	g := newRig(t, func(c *Config) { c.Pods, c.Settle = source, 2*time.Second })
	require.False(t, g.step("n").Done)
	source.put(pod("n", "late"))
	g.clock.Step(23 * time.Second)
	got := g.step("n")
	require.False(t, got.Done, "a Pod is there, and the watch has not shown it")
	require.Equal(t, 1, got.Counts.Evictable)
	require.Equal(t, 2, source.begun)

	source.remove("n", "uid-late")
	source.Release("n") // the watch shows it
	g.clock.Step(2 * time.Second)
	require.True(t, g.step("n").Done)
	require.Equal(t, 4, source.begun)
	require.True(t, g.step("n").Done)
	require.Equal(t, 4, source.begun, "nothing is to be confirmed twice")

	_, err := g.runner.Step(t.Context(), Request{Node: schedulable("n", "300")})
	require.NoError(t, err)
	require.False(t, g.step("n").Done)
	g.clock.Step(2 * time.Second)
	require.True(t, g.step("n").Done)
	require.Equal(t, 5, source.begun, "the cordon was undone meanwhile")
}
