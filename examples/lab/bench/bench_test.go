package bench

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
)

func TestWrongFlagsAreNamedBeforeAnythingIsBuilt(t *testing.T) {
	for args, want := range map[string]string{
		"":                                    "there are [machine set rollout health fleet pool drain gardener]",
		"cluster":                             `no benchmark "cluster"`,
		"machine -x":                          "-x",
		"machine now":                         `unexpected argument "now"`,
		"machine -o xml":                      "text or json",
		"machine --size 0":                    "--size must be 1 to 9999",
		"set --size 5001":                     "--size must be 1 to 5000",
		"machine --pods -1":                   "--pods and --steady must be 0 or more",
		"pool --steady -1s":                   "--pods and --steady must be 0 or more",
		"health --rounds 0":                   "at least 1",
		"machine --arms ours,mcm":             `no arm "mcm"; there are ours, capi`,
		"machine --cases all":                 `no case "all"; there are default, off`,
		"drain --cases 1,7":                   `no case "7"; there are 1, 2, 3, 4, 5`,
		"drain --cases 2 --arms capi":         "none of the cases",
		"drain --arms ours,karpenter":         `no arm "karpenter"`,
		"fleet --size 505":                    "give a multiple of that",
		"fleet --managers 2":                  "choose --arms ours",
		"fleet --managers 0":                  "--managers must be 1 to 10",
		"fleet --workers 0":                   "--workers at least 1",
		"fleet --managers 2 --floor":          "choose --arms ours, and not --floor",
		"fleet --size 2000 --floor":           "give a --size of 1000 at most",
		"set --managers 2":                    "-managers",
		"fleet --arms ours --managers 2 more": `unexpected argument "more"`,
	} {
		var stdout, stderr bytes.Buffer
		err := Run(t.Context(), strings.Fields(args), &stdout, &stderr)
		require.ErrorIs(t, err, cli.ErrUsage, args)
		require.ErrorContains(t, err, want, args)
		require.Empty(t, stdout.String(), args)
	}
}

func TestEveryBenchmarkExplainsItself(t *testing.T) {
	for _, name := range Names() {
		var stdout bytes.Buffer
		require.ErrorIs(t, Run(t.Context(), []string{name, "--help"}, &stdout, io.Discard), flag.ErrHelp)
		require.Contains(t, stdout.String(), "lab bench "+name+": ")
		require.Contains(t, stdout.String(), "-rounds")
	}
}

func TestWhatIsNamedIsMeasuredInTheOrderOfTheHelp(t *testing.T) {
	got, err := parse(machines(), nil, io.Discard)
	require.NoError(t, err)
	want := options{output: "text", size: 500, rounds: 1, managers: 1, pods: 30, arms: managers(), cases: []string{"default", "off"}}
	require.Empty(t, cmp.Diff(want, got, cmp.AllowUnexported(options{})))
	got, err = parse(machines(), strings.Fields("--arms capi,ours --cases off --size 50 --pods 0 --steady 5m --rounds 3 -o json"), io.Discard)
	require.NoError(t, err)
	want = options{output: "json", size: 50, rounds: 3, managers: 1, steady: 5 * time.Minute, arms: managers(), cases: []string{"off"}}
	require.Empty(t, cmp.Diff(want, got, cmp.AllowUnexported(options{})))
	require.True(t, drains().has("4", arm.CAPI))
	require.False(t, drains().has("2", arm.CAPI))
}

func TestAnInterruptedStartMeasuresNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout bytes.Buffer
	require.ErrorIs(t, Run(ctx, []string{"machine", "--arms", "ours"}, &stdout, io.Discard), context.Canceled)
	require.Empty(t, stdout.String())
}

func TestTheWorkOfAReplacementBeginsWithTheFirstDeletion(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	event := func(seconds int, verb string) cluster.AuditEvent {
		return cluster.AuditEvent{Received: start.Add(time.Duration(seconds) * time.Second), Verb: verb, Resource: "machines", Code: 200}
	}
	require.Equal(t, start.Add(11*time.Second), firstDeletion(cluster.AuditEvents{event(12, "delete"), event(11, "delete"), event(3, "get")}))
	require.True(t, firstDeletion(cluster.AuditEvents{event(3, "get")}).IsZero())
}

// With most Machines of a zone it would be an outage, which ours does not end by new Machines.
func TestMachinesGoBadInAllZones(t *testing.T) {
	var all []unstructured.Unstructured
	for i := range 300 {
		name := fmt.Sprintf("m-%03d", i)
		m := fake.Machine(name, fake.WithField(name, "status", "nodeRef", "name"))
		m.SetUID(types.UID(name))
		all = append(all, *m)
	}
	nodes, uids := victims(all, 30)
	inZone := map[string]int{}
	for _, node := range nodes {
		inZone[zoneOf(node)]++
		require.True(t, uids[types.UID(node)])
	}
	require.Equal(t, map[string]int{"zone-0": 10, "zone-1": 10, "zone-2": 10}, inZone)
	again, _ := victims(all, 30)
	require.Equal(t, nodes, again)
	few, _ := victims(all[:2], 5)
	require.Len(t, few, 2)
	require.Equal(t, 1, options{size: 3}.bad())
	require.Equal(t, 30, options{size: 300}.bad())
}
