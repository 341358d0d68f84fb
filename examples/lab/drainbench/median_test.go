package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A field that medians forgets would be printed as 0 for ever, so each has a value of its own here.
func TestMediansKnowEveryFigure(t *testing.T) {
	all := func(n int) figures {
		f := float64(n)
		return figures{
			Pods: n, Wall: f + 1, Left: n + 17, LastEviction: f + 2, PodsGone: f + 3, Reaction: new(f + 4),
			Requests: requests{Evict: n + 5, Get: n + 6, List: n + 7, Watch: n + 8, Patch: n + 9, Other: n + 10},
			PerPod:   f + 11, Standing: n + 12, TooMany: n + 13, WrongNode: n + 14, Duplicates: n + 15, MaxDuplicates: n + 16,
		}
	}
	if diff := cmp.Diff(all(20), medians([]figures{all(500), all(1), all(20)})); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
	if got := medians([]figures{{}}); got.Reaction != nil {
		t.Errorf("a reaction of %v where no budget opened", *got.Reaction)
	}
}
