package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the picture of the README")

// recorded are the acts and the Machines of a real run: go run ./examples/quickstart -o json.
func recorded(t *testing.T) []event {
	t.Helper()
	text, err := os.ReadFile("testdata/story.json")
	require.NoError(t, err)
	var events []event
	for decoder := json.NewDecoder(bytes.NewReader(text)); decoder.More(); {
		var e event
		require.NoError(t, decoder.Decode(&e))
		events = append(events, e)
	}
	return events
}

func TestREADMEPictureIsCurrent(t *testing.T) {
	var drawn bytes.Buffer
	drawTimeline(&drawn, recorded(t))
	if *update {
		require.NoError(t, os.WriteFile("timeline.svg", drawn.Bytes(), 0o600))
	}
	have, err := os.ReadFile("timeline.svg")
	require.NoError(t, err)
	require.Equal(t, string(have), drawn.String(), "run make generate")
}

func TestATimelineHasTheMachinesInTheOrderInWhichTheyCameAndTheirPhases(t *testing.T) {
	at := func(seconds float64, name, phase, message string) event {
		return event{Seconds: seconds, Kind: "Machine", Name: name, Event: happenedChanged, Machine: &machineRow{Phase: phase, Message: message}}
	}
	all, end := lanes([]event{
		at(1, "b", "Pending", ""), at(2, "a", "Running", ""), at(3, "b", "Pending", "other words"),
		at(4, "b", "Deleting", ""), at(5, "b", "Deleting", "The disruption budget web needs 2 healthy pods"),
		{Seconds: 6, Kind: "Machine", Name: "b", Event: happenedGone}, {Seconds: 9, Kind: "Pod", Name: "p"},
	})
	require.InDelta(t, 9, end, 0)
	require.Empty(t, cmp.Diff([]lane{
		{"b", []span{{"Pending", 1, 4}, {"Deleting", 4, 5}, {blocked, 5, 6}, {"", 6, 6}}},
		{"a", []span{{"Running", 2, 9}}},
	}, all, cmp.AllowUnexported(lane{}, span{})))
}

func TestATimelineEscapesWhatItShows(t *testing.T) {
	var out bytes.Buffer
	drawTimeline(&out, []event{
		{Kind: kindAct, Message: "a < b"},
		{Seconds: 1, Kind: "Machine", Name: "<m>", Machine: &machineRow{Phase: "Odd"}},
	})
	require.Contains(t, out.String(), "a &lt; b")
	require.NotContains(t, out.String(), "<m>")
	out.Reset()
	drawTimeline(&out, nil)
	require.Contains(t, out.String(), "</svg>")
}

func TestATimelineIsDrawnOfAStoryThatFailsToo(t *testing.T) {
	t.Parallel()
	o := quick()
	o.minAvailable, o.timeline = 99, filepath.Join(t.TempDir(), "story.svg")
	got := tell(t, t.Context(), o)
	require.Equal(t, exitFailed, got.code)
	text, err := os.ReadFile(o.timeline)
	require.NoError(t, err)
	require.Contains(t, string(text), newScript(o).victim)
	files, err := os.ReadDir(filepath.Dir(o.timeline))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing else is left")
}

// It does not run beside others: execute sets the loggers of the process.
func TestATimelineThatCannotBeWrittenIsNamedBeforeTheStoryBegins(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, execute([]string{"-timeline", filepath.Join(t.TempDir(), "none", "a.svg")}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "a.svg")
	require.Contains(t, stderr.String(), "no such file or directory")
	require.Empty(t, stdout.String())
}
