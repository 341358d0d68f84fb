package gobuild

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABuildSaysThatItIsAlive(t *testing.T) {
	var c compiled
	require.Equal(t, "nothing compiled yet", c.String())
	c.read(strings.NewReader("a\nb\n"))
	require.Equal(t, "2 packages done, last b", c.String())

	ticks := make(chan time.Duration)
	done := make(chan struct{})
	stop := Every(time.Millisecond, func(elapsed time.Duration) {
		select {
		case ticks <- elapsed:
		case <-done:
		}
	})
	require.Positive(t, <-ticks)
	require.Positive(t, <-ticks)
	close(done)
	stop()
}
