package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/fake"
)

const exitUsage = 2

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	m.Run()
}

func defaults() options { return options{minAvailable: pods - 1, timeout: 5 * time.Minute} }

// told is what a run has printed.
type told struct {
	code           int
	stdout, stderr string
}

// tell runs the story in a bubble: its time is that of package synctest, and every goroutine must have ended with it.
func tell(t *testing.T, o options) told {
	t.Helper()
	var got told
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		got.code = run(t.Context(), o, command.NewProgress(&stdout), &stderr)
		got.stdout, got.stderr = stdout.String(), stderr.String()
	})
	return got
}

func TestStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stdout bytes.Buffer
		tale := &story{options: defaults(), view: command.NewProgress(&stdout), start: time.Now()}
		require.NoError(t, tale.perform(t.Context()), stdout.String())

		require.Len(t, tale.picture.machines, 1+2*machines)
		for _, l := range tale.picture.machines {
			var phases []string
			for _, s := range l.spans {
				if s.what != blocked && (len(phases) == 0 || phases[len(phases)-1] != s.what) {
					phases = append(phases, s.what)
				}
			}
			want := []string{"Pending", "Provisioning", "Provisioned", "Running"}
			if l.gone {
				want = append(want, "Deleting")
			}
			require.Equal(t, want, phases, l.name)
		}
		victim := fake.Machine(tale.victim.name)
		objects := []client.Object{victim, &corev1.Node{}}
		for _, gvk := range provided() {
			objects = append(objects, object(gvk, victim.GetName()))
		}
		for _, obj := range objects {
			err := tale.client.Get(t.Context(), client.ObjectKey{Namespace: obj.GetNamespace(), Name: victim.GetName()}, obj)
			require.True(t, apierrors.IsNotFound(err), "%T %s: %v", obj, victim.GetName(), err)
		}
		require.Positive(t, tale.picture.waited, "drains waited for the budget")
		require.Equal(t, tale.minAvailable, tale.fewest)
		require.Contains(t, stdout.String(), "MachineDeployment fleet: 3 Machines, 3 up to date, 3 available")
		_, rollout, _ := strings.Cut(stdout.String(), "goes from "+oldVersion)
		require.Contains(t, rollout, "MachineDeployment fleet: 4 Machines", "maxSurge is 1")
		require.NotContains(t, rollout, "MachineDeployment fleet: 5 Machines")
		require.NotContains(t, rollout, "up to date, 2 available", "maxUnavailable is 0")
		require.Contains(t, tale.summary(nil), "4 Machines were replaced")
	})
}

// saboteur deletes every pod, past the budget, when the first one is evicted.
type saboteur struct {
	do   func()
	once sync.Once
}

func (s *saboteur) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("evicted from")) {
		s.once.Do(s.do)
	}
	return len(p), nil
}

func TestBudget(t *testing.T) {
	for name, minAvailable := range map[string]int{"as many pods as there are": pods, "more pods than there are": 99} {
		t.Run("can never open and is named: "+name, func(t *testing.T) {
			o := defaults()
			o.minAvailable = minAvailable
			got := tell(t, o)
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.stderr, "PodDisruptionBudget web")
			require.Contains(t, got.stderr, "lower its minAvailable")
			require.NotContains(t, got.stderr, "gave up", "noticed, not timed out")
			require.NotContains(t, got.stdout, "evicted from")
			require.Contains(t, got.stdout, "Failed after")
		})
	}
	t.Run("is not waited for when it demands nothing", func(t *testing.T) {
		o := defaults()
		o.minAvailable = 0
		got := tell(t, o)
		require.Equal(t, exitDone, got.code, got.stderr)
		require.Contains(t, got.stdout, "drains waited 0.0 s")
	})
	t.Run("is broken by pods that are deleted past it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tale := &story{options: defaults(), start: time.Now()}
			tale.view = command.NewProgress(&saboteur{do: func() {
				require.NoError(t, tale.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("default")))
			}})
			err := tale.perform(t.Context())
			require.ErrorIs(t, err, errBroken)
			require.ErrorContains(t, err, fmt.Sprintf("PodDisruptionBudget web demands %d", tale.minAvailable))
		})
	})
}

func TestTimeout(t *testing.T) {
	o := defaults()
	o.timeout = 2 * time.Second
	got := tell(t, o)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "A MachineDeployment of 3 Machines is created, and they come up: gave up; -timeout gives it longer")
}

func TestFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no number":    {[]string{"-budget-min-available", "x"}, "invalid value"},
		"unknown flag": {[]string{"-frobnicate"}, "frobnicate"},
		"an argument":  {[]string{"up"}, `unexpected argument "up"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, execute(c.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), c.want)
			require.Contains(t, stderr.String(), "--help for help")
			require.Empty(t, stdout.String())
		})
	}
	t.Run("help", func(t *testing.T) {
		var out bytes.Buffer
		_, err := parse([]string{"-h"}, &out)
		require.ErrorIs(t, err, flag.ErrHelp)
		for _, want := range []string{"-budget-min-available", "-timeline", "Exit codes", "go run ./examples/quickstart"} {
			require.Contains(t, out.String(), want)
		}
	})
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestLostOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		code := command.Run("quickstart", command.Codes{Done: exitDone, Lost: exitFailed}, full{}, &stderr, func(out io.Writer) int {
			return run(t.Context(), defaults(), command.NewProgress(out), &stderr)
		})
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr.String(), "write output: no space left")
	})
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "Pod a: stays; Pod b: goes",
		oneLine("Drain not completed yet (started at 2026-11-23T16:05:40Z):\n* Pod a: stays\n* Pod b: goes"))
	require.Equal(t, "Drain not completed yet", oneLine("Drain not completed yet"))
}

func TestDifferences(t *testing.T) {
	before := map[string]string{"Pod a": "ready", "Pod b": "", "Pod c": "ready"}
	after := map[string]string{"Pod a": "ready", "Pod b": "ready", "Pod d": "", "Pod e": "new"}
	require.Empty(t, cmp.Diff([]string{"Pod b: ready", "Pod c: gone", "Pod e: new"}, differences(before, after)))
}

func TestTimeline(t *testing.T) {
	t.Run("has Machines in their order, and escapes texts", func(t *testing.T) {
		p := &picture{now: time.Minute, acts: []span{{what: "a < b & c"}}}
		p.machines = []*life{{name: "soon", spans: []span{{"Elsewhere", 0, time.Second}}}, {name: "late", spans: []span{{"Running", 0,
			time.Second}}}}
		drawn := string(timeline(p))
		require.Less(t, strings.Index(drawn, "soon"), strings.Index(drawn, "late"))
		require.Contains(t, drawn, colourOf("Running"))
		require.Contains(t, drawn, "a &lt; b &amp; c")
		decoder := xml.NewDecoder(strings.NewReader(drawn))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				return
			}
			require.NoError(t, err)
		}
	})
	t.Run("is written, also of a story that failed", func(t *testing.T) {
		o := defaults()
		o.timeout, o.timeline = 3*time.Second, filepath.Join(t.TempDir(), "story.svg")
		require.Equal(t, exitFailed, tell(t, o).code)
		text, err := os.ReadFile(o.timeline)
		require.NoError(t, err)
		require.Contains(t, string(text), "fleet-")
	})
	t.Run("that cannot be written is reported", func(t *testing.T) {
		o := defaults()
		o.timeout, o.timeline = time.Second, filepath.Join(t.TempDir(), "none", "story.svg")
		require.Contains(t, tell(t, o).stderr, "story.svg: no such file")
	})
}
