package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/examples/command"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	m.Run()
}

// brisk is the steady pace at a quarter of the time. A stage still lasts long enough to be seen.
func brisk() pace {
	p := steady()
	p.stage, p.startPod, p.stopPod, p.readyNode, p.status = p.stage/4, p.startPod/4, p.stopPod/4, p.readyNode/4, p.status/8
	return p
}

func quick() options {
	return options{
		machines: 3, seed: 1, minAvailable: automatic, timeout: 5 * time.Minute, output: outputJSON, pace: brisk(), log: logr.Discard(),
	}
}

// told is what a run printed with -o json.
type told struct {
	code    int
	events  []event
	summary summary
	stderr  string
}

func tell(t *testing.T, ctx context.Context, o options) told {
	t.Helper()
	var stdout, stderr bytes.Buffer
	result := told{code: run(ctx, o, &stdout, &stderr), stderr: stderr.String()}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	for i, text := range lines {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if i == len(lines)-1 {
			require.NoError(t, decoder.Decode(&result.summary), text)
			continue
		}
		var e event
		require.NoError(t, decoder.Decode(&e), text)
		result.events = append(result.events, e)
	}
	return result
}

func TestTheQuickstartRunsToItsEnd(t *testing.T) {
	t.Parallel()
	o := quick()
	o.pace.startPod = steady().startPod // or, on a busy computer, the budget is open again before the drain has met it closed
	got := tell(t, t.Context(), o)
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Empty(t, got.stderr)

	s := newScript(o)
	phases := map[string][]string{}
	for _, e := range got.events {
		if e.Machine == nil {
			continue
		}
		if seen := phases[e.Name]; len(seen) == 0 || seen[len(seen)-1] != e.Machine.Phase {
			phases[e.Name] = append(phases[e.Name], e.Machine.Phase)
		}
	}
	for _, name := range s.machines {
		want := []string{"Pending", "Provisioning", "Provisioned", "Running"}
		if name == s.victim {
			want = append(want, "Deleting")
		}
		require.Equal(t, want, phases[name], "phases of %s", name)
	}
	for _, kind := range []string{"Machine", "FakeMachine", "FakeConfig", "Node"} {
		require.True(t, slices.ContainsFunc(got.events, func(e event) bool {
			return e.Kind == kind && e.Name == s.victim && e.Event == happenedGone
		}), "%s %s is gone", kind, s.victim)
	}

	require.Equal(t, outcomeDone, got.summary.Outcome)
	require.Len(t, got.summary.Machines, 3)
	for _, m := range got.summary.Machines {
		require.Positive(t, m.SecondsToRunning)
		require.Positive(t, m.ToMachine)
		require.Greater(t, m.InAll, m.ToMachine)
	}
	require.GreaterOrEqual(t, got.summary.Deletion.Evicted, 2)
	require.Positive(t, got.summary.Deletion.DrainSeconds)
	require.LessOrEqual(t, got.summary.Deletion.DrainSeconds, got.summary.Deletion.Seconds)
	require.Positive(t, got.summary.Budget.Waits, "the drain waited for the budget")
	require.True(t, got.summary.Budget.Kept)
	require.Equal(t, s.minAvailable, got.summary.Budget.FewestReady)
	rollout := got.summary.Rollout
	require.Equal(t, fleetSize, rollout.Replaced)
	require.Equal(t, fleetSize+1, rollout.Most, "maxSurge is 1")
	last := slices.IndexFunc(got.events, func(e event) bool { return e.Kind == kindAct && strings.Contains(e.Message, newVersion) })
	for _, e := range got.events[last:] {
		if e.Deployment != nil {
			require.GreaterOrEqual(t, e.Deployment.Available, int32(fleetSize), "maxUnavailable is 0")
		}
	}
}

func TestEveryPodLeavesBeforeTheMachineBehindItIsDeleted(t *testing.T) {
	t.Parallel()
	o := quick()
	o.pace.sort = time.Second // on a busy computer one watch is later than another by more than a person would wait for
	got := tell(t, t.Context(), o)
	require.Equal(t, exitDone, got.code, got.stderr)
	victim := newScript(quick()).victim
	left := map[string]bool{} // Nodes that a pod has left
	var gone []string
	for i, e := range got.events {
		switch {
		case e.Kind == "Pod" && e.Event == happenedGone:
			left[e.Pod.Node] = true
		case e.Kind == "FakeMachine" && e.Event == happenedGone:
			gone = append(gone, e.Name)
			require.True(t, left[e.Name], "pods left %s before", e.Name)
			require.False(t, slices.ContainsFunc(got.events[i:], func(later event) bool {
				return later.Kind == "Pod" && later.Pod.Node == e.Name
			}), "no pod of %s is heard of afterwards", e.Name)
		}
	}
	require.Len(t, gone, 1+fleetSize)
	require.Contains(t, gone, victim)
}

func TestABudgetThatCanNeverOpenEndsTheStoryAndIsNamed(t *testing.T) {
	t.Parallel()
	for name, minAvailable := range map[string]int{"as many pods as there are": newScript(quick()).replicas, "more pods than there are": 99} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.minAvailable = minAvailable
			got := tell(t, t.Context(), o)
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.stderr, "PodDisruptionBudget default/web")
			require.Contains(t, got.stderr, "lower its minAvailable")
			require.NotContains(t, got.stderr, "gave up after", "noticed, not timed out")
			require.Equal(t, outcomeFailed, got.summary.Outcome)
			require.Zero(t, got.summary.Deletion.Evicted)
			require.False(t, got.summary.Budget.CanOpen)
		})
	}
}

func TestABudgetThatDemandsNothingIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	o := quick()
	o.minAvailable, o.machines = 0, 2
	got := tell(t, t.Context(), o)
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Zero(t, got.summary.Budget.Waits)
}

func TestATimeoutSaysWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	const start = "the cluster and its controllers start"
	for name, tc := range map[string]struct {
		timeouts []time.Duration // the first with which the act is reached, however busy the machine is
		act      string
	}{
		"before the first act": {[]time.Duration{time.Nanosecond}, start},
		"in an act":            {[]time.Duration{3 * time.Second, 30 * time.Second, 2 * time.Minute}, "3 Machines are created and come up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.pace.stage = time.Hour
			var got told
			for _, o.timeout = range tc.timeouts {
				got = tell(t, t.Context(), o)
				require.Equal(t, exitFailed, got.code)
				if strings.Contains(got.stderr, tc.act) {
					break
				}
				require.Contains(t, got.stderr, start)
			}
			require.Contains(t, got.stderr, fmt.Sprintf("gave up after %s while: %s", o.timeout, tc.act))
		})
	}
}

// cancelWhen is a writer that cancels once it has seen a text.
type cancelWhen struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
	once   sync.Once
}

func (w *cancelWhen) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.once.Do(w.cancel)
	}
	return w.Buffer.Write(p)
}

func TestAnInterruptionEndsCleanlyInEveryAct(t *testing.T) { // not parallel: it counts goroutines
	for name, text := range map[string]string{
		"at the start": "== 3 Machines", "while Machines come up": "Provisioning", "while pods start": "placed on",
		"while a Node is drained": "Deleting",
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := quick()
			o.output = ""
			out, stderr := &cancelWhen{text: text, cancel: cancel}, &bytes.Buffer{}
			require.Equal(t, exitInterrupted, run(ctx, o, out, stderr))
			require.Equal(t, "quickstart: interrupted\n", stderr.String())
			require.Contains(t, out.String(), "Interrupted after")
			require.NotContains(t, out.String(), "\x1b", "no terminal control where there is no terminal")
			requireGoroutines(t, before)
		})
	}
}

// requireGoroutines waits until there are at most n goroutines, because some need a moment to return.
func requireGoroutines(t *testing.T, n int) {
	t.Helper()
	for range 6000 {
		if runtime.NumGoroutine() <= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Fatalf("more than %d goroutines go on:\n%s", n, stacks[:runtime.Stack(stacks, true)])
}

func TestWrongFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"one Machine leaves its pods no other Node": {[]string{"-machines", "1"}, "-machines 1: give 2 to 100"},
		"too many Machines":                         {[]string{"-machines", "101"}, "-machines 101: give 2 to 100"},
		"no number":                                 {[]string{"-machines", "x"}, "invalid value"},
		"negative budget":                           {[]string{"-budget-min-available", "-2"}, "-budget-min-available -2"},
		"no time":                                   {[]string{"-timeout", "0s"}, "-timeout 0s"},
		"unknown output":                            {[]string{"-o", "yaml"}, `-o "yaml": give lines or json`},
		"unknown flag":                              {[]string{"-frobnicate"}, "frobnicate"},
		"an argument":                               {[]string{"up"}, `unexpected argument "up"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, execute(c.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), c.want)
			require.Contains(t, stderr.String(), "--help for help")
			require.Empty(t, stdout.String())
		})
	}
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := parse([]string{"-h"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, want := range []string{"-budget-min-available", "-seed", "Exit codes", "go run ./examples/quickstart"} {
		require.Contains(t, out.String(), want)
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	for _, format := range []string{outputJSON, outputLines} {
		o := quick()
		o.output = format
		var stderr bytes.Buffer
		code := command.Run("quickstart", command.Codes{Done: exitDone, Lost: exitFailed}, full{}, &stderr, func(out io.Writer) int {
			return run(t.Context(), o, out, &stderr)
		})
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr.String(), "write output: no space left")
	}
	var stderr bytes.Buffer
	require.Equal(t, exitFailed, execute([]string{"--help"}, full{}, &stderr))
	require.Contains(t, stderr.String(), "write output: no space left")
}
