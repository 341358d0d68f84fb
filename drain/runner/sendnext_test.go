package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestSendNext_SendsOneRequestAndReturnsAfterItsAnswer(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n1", "a"), pod("n1", "b"), pod("n2", "c"))
	if sent, again := g.runner.SendNext(t.Context()); sent || again != 0 {
		t.Fatalf("want nothing to send before a Step, got %t, %s", sent, again)
	}
	g.step("n1")
	g.step("n2")
	var before int
	for range 3 {
		if sent, _ := g.runner.SendNext(t.Context()); !sent {
			t.Fatal("want a request to be sent")
		}
		if got := len(g.evictor.names()); got != before+1 {
			t.Fatalf("want one more request than %d, got %v", before, g.evictor.names())
		}
		before++
	}
	if sent, again := g.runner.SendNext(t.Context()); sent || again != 0 {
		t.Fatalf("want nothing left to send, got %t, %s", sent, again)
	}
	if at := slices.Index(g.evictor.names(), "c"); at != 1 {
		t.Errorf("want the Nodes to take turns, got %v", g.evictor.names())
	}
}

func TestSendNext_SaysWhenTheNextRequestMayGo(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n", "a"))
	g.evictor.answerWith(throttled)
	g.step("n")
	if sent, _ := g.runner.SendNext(t.Context()); !sent {
		t.Fatal("want a request to be sent")
	}
	sent, again := g.runner.SendNext(t.Context())
	if sent || again <= 0 {
		t.Fatalf("want a pause after an answer that throttles, got %t, %s", sent, again)
	}
	g.clock.Step(again - time.Millisecond)
	if sent, again = g.runner.SendNext(t.Context()); sent || again != time.Millisecond {
		t.Fatalf("want the rest of the pause, got %t, %s", sent, again)
	}
	g.clock.Step(again)
	g.evictor.answerWith(nil)
	if sent, _ = g.runner.SendNext(t.Context()); !sent {
		t.Fatal("want the request to be sent again after the pause")
	}
}

func TestSendNext_SendsNothingAfterItsContextHasEnded(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n", "a"))
	g.step("n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.runner.SendNext(ctx)
	g.wantRequests()
	if sent, _ := g.runner.SendNext(t.Context()); sent {
		t.Error("want the request to wait for the next Step, as after the end of Start")
	}
	g.step("n")
	if sent, _ := g.runner.SendNext(t.Context()); !sent {
		t.Error("want the next Step to queue it again")
	}
}

func TestSendNext_LetsStepsOfOtherNodesGoOnDuringARequest(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n1", "a"), pod("n2", "b"))
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if ref.Name == "a" {
			g.step("n2") // from within the request: a caller in one goroutine lets others act meanwhile
			g.runner.Release("n1")
		}
		return errors.New("lost")
	})
	g.step("n1")
	for range 2 {
		if sent, _ := g.runner.SendNext(t.Context()); !sent {
			t.Fatal("want two requests")
		}
	}
	g.wantRequests("a", "b")
}
