package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const window = time.Minute

func lanes() []Lane {
	span := Span{Least: time.Second, Most: 3 * time.Second}
	return []Lane{
		{Targets: []string{"etcd", "kube-apiserver"}, Rest: 2 * time.Second, Killed: span, Frozen: span},
		{Targets: []string{"manager"}, Rounds: 2, Killed: span, Frozen: span},
	}
}

func TestAPlanHasEveryKindForEveryTargetOneAtATimeInItsLane(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		seen := map[string]int{}
		busy := map[string]time.Duration{}
		for _, f := range Plan(seed, window, lanes()...) {
			seen[f.Target+" "+string(f.Kind)]++
			lane, rest := "manager", time.Duration(0)
			if f.Target != "manager" {
				lane, rest = "control plane", 2*time.Second
			}
			if f.At < busy[lane] {
				t.Errorf("seed %d: %s begins before %s", seed, f, busy[lane])
			}
			busy[lane] = f.At + f.For + rest
			short, long := time.Second, 3*time.Second
			if f.Kind == Restarted {
				short, long = 0, 0
			}
			if f.For < short || f.For > long {
				t.Errorf("seed %d: %s", seed, f)
			}
			if end := f.At + f.For; end > window {
				t.Errorf("seed %d: %s ends after the window", seed, f)
			}
		}
		want := map[string]int{}
		for _, kind := range Kinds() {
			want["etcd "+string(kind)], want["kube-apiserver "+string(kind)], want["manager "+string(kind)] = 1, 1, 2
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

func TestASeedDecidesThePlan(t *testing.T) {
	t.Parallel()
	text := func(seed uint64) string { return fmt.Sprint(Plan(seed, window, lanes()...)) }
	first := text(1)
	if again := text(1); again != first {
		t.Errorf("one seed gives two plans: %s, %s", first, again)
	}
	if other := text(2); other == first {
		t.Error("two seeds give one plan")
	}
}

func TestALaneWithoutEnoughTimeIsOverLater(t *testing.T) {
	t.Parallel()
	span := Span{Least: time.Second, Most: time.Second}
	plan := Plan(1, time.Second, Lane{Targets: []string{"a"}, Killed: span, Frozen: span, Rest: time.Second})
	last := plan[len(plan)-1]
	if last.At < 3*time.Second {
		t.Errorf("faults overlap: %v", plan)
	}
}
