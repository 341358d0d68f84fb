package runner

import "time"

// bucket is a token bucket that is told the time. The zero value lets everything through.
type bucket struct {
	perSecond, size, tokens float64
	last                    time.Time
}

func newBucket(perSecond float64, burst int) bucket {
	return bucket{perSecond: perSecond, size: float64(burst), tokens: float64(burst)}
}

// wait returns how long the next request has to wait; 0 lets it go.
func (b *bucket) wait(now time.Time) time.Duration {
	if b.perSecond <= 0 {
		return 0
	}
	if passed := now.Sub(b.last); !b.last.IsZero() && passed > 0 {
		b.tokens = min(b.size, b.tokens+passed.Seconds()*b.perSecond)
	}
	b.last = now
	if b.tokens >= 1 {
		return 0
	}
	return max(time.Millisecond, time.Duration((1-b.tokens)/b.perSecond*float64(time.Second)))
}

// take books one request that wait has let go.
func (b *bucket) take() { b.tokens-- }
