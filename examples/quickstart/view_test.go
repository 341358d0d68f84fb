package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestTheTableFitsTheTerminalAndIsRedrawnInPlace(t *testing.T) {
	t.Parallel()
	known := newPicture(time.Now())
	for i := range 10 {
		known.machines[fmt.Sprintf("demo-%d", i)] = &life{
			row: machineRow{Phase: "Running", Ready: "True", ProviderID: "fake://default/0123456789-0123456789", Message: strings.Repeat("x", 200)},
		}
	}
	var out bytes.Buffer
	v := newTable(&out, known, func() (int, int) { return 60, 8 })
	v.tick()
	first := out.Len()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 6, "less than the height: what scrolls away cannot be redrawn")
	require.Contains(t, lines[5], "6 more lines")
	for _, text := range lines {
		require.LessOrEqual(t, len(strings.ReplaceAll(strings.TrimPrefix(text, eraseDown), eraseLine, "")), 60)
	}
	v.tick()
	require.True(t, strings.HasPrefix(out.String()[first:], "\x1b[6A\r\x1b[J"), "back up over the block")
	v.ticker.Stop()
}

func TestMessagesAreShortened(t *testing.T) {
	t.Parallel()
	drainMessage := "Drain not completed yet (started at 2026-11-20T22:38:08Z):\n* Pod a/b: eviction requested\n* Pod a/c: cannot"
	for name, c := range map[string]struct{ got, want string }{
		"bullets become one line": {oneLine("* A: b\n* C:\n  * d\n  * e"), "A: b; C: d; e"},
		"a drain loses its start": {shortMessage(drainMessage), "draining; Pod a/b: eviction requested; Pod a/c: cannot"},
		"a drain without details": {shortMessage("Drain not completed yet (started at x)"), "Drain not completed yet (started at x)"},
		"other messages stay":     {shortMessage("Waiting for Node x"), "Waiting for Node x"},
		"the ends of an ID":       {shortID("fake://default/0123456789abcdef"), "fake://d...89abcdef"},
		"a short ID":              {shortID("fake://a/b"), "fake://a/b"},
		"no ID":                   {shortID(""), "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.got)
		})
	}
}

func TestTextIsWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	got := wrap("* one two three\n* a-word-longer-than-the-line\n", 9)
	require.Empty(t, cmp.Diff([]string{"* one two", "  three", "*", "  a-word-longer-than-the-line"}, got))
}

func TestABrokenPromiseIsNoticed(t *testing.T) {
	t.Parallel()
	var p promise
	p.look(0)
	require.False(t, p.broken, "nothing was promised")
	p.give(3, 4)
	p.look(3)
	require.False(t, p.broken)
	p.look(2)
	p.look(4)
	require.True(t, p.broken, "it stays broken")
	require.Equal(t, 2, p.fewest)
}

func TestWaitsAreSummedUp(t *testing.T) {
	t.Parallel()
	var w waits
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, look := range []struct {
		waiting bool
		at      int
	}{{false, 0}, {true, 1}, {true, 2}, {false, 4}, {true, 10}, {false, 11}} {
		w.look(look.waiting, at(look.at))
	}
	require.Equal(t, waits{times: 2, total: 4 * time.Second}, w)
	require.True(t, waitsFor("The disruption budget web needs 6 healthy pods and has 6 currently"))
	require.False(t, waitsFor("The disruption budget webshop needs 6 healthy pods and has 6 currently"))
}
