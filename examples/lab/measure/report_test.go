package measure

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

func event(verb, resource, subresource string, code int) cluster.AuditEvent {
	return cluster.AuditEvent{Verb: verb, Resource: resource, Subresource: subresource, Code: code}
}

func TestRequestsAreCountedByKindAndByResource(t *testing.T) {
	run := NewRun("", "ours", 1)
	run.Count("up", cluster.AuditEvents{
		event("patch", "machines", "status", 200), event("patch", "machines", "status", 409), event("patch", "machines", "", 200),
		event("create", "events", "", 201), event("delete", "nodes", "", 200), event("create", "pods", "eviction", 429),
		event("get", "fakemachines", "", 200), event("get", "fakemachines", "", 404), event("list", "pods", "", 200),
		event("watch", "nodes", "", 200), event("update", "leases", "", 200), event("get", "leases", "", 200),
		{Verb: "get", URI: "/api/v1", Code: 200}, {Verb: "patch", Resource: "nodes", Code: 200, DryRun: true},
	})
	run.Count("down", nil)
	require.Empty(t, cmp.Diff(Figures{
		"up writes": 6, "up reads": 4, "up watches": 1, "up conflicts": 1, "down writes": 0,
		"down reads": 0, "down watches": 0, "down conflicts": 0,
	}, run.Figures))
	require.Empty(t, cmp.Diff(Requests{"down": {}, "up": {
		"patch machines/status": 2, "patch machines": 1, "create events": 1, "delete nodes": 1, "create pods/eviction": 1,
		"get fakemachines": 2, "list pods": 1, "get (no resource)": 1, "watch nodes": 1,
	}}, run.Requests))
	require.InDelta(t, 6, run.Figures.Sum("writes", "up", "down"), 0)
}

func measured(of, arm string, value float64) Run {
	run := NewRun(of, arm, 1)
	run.Figures["writes/machine"], run.Figures["rate"] = value, 100/value
	run.Figures["beside"] = 7
	run.Requests["up"] = map[string]float64{"patch machines": value}
	return *run
}

func reportOf(runs ...Run) *Report {
	return NewReport("machine", 100, 3, []string{"default", "off"}, []string{"ours", "capi"}, []Column{
		{Figure: "writes/machine", Bound: 0.5}, {Figure: "rate", Unit: "/s", Bound: 2, AtLeast: true},
		{Figure: "heap", Unit: "KiB"},
	}, runs)
}

func TestTheLastLinesHaveMediansAndJudgeEveryTarget(t *testing.T) {
	r := reportOf(measured("default", "ours", 10), measured("default", "ours", 90), measured("default", "ours", 20),
		measured("default", "capi", 40), measured("off", "ours", 30), measured("off", "capi", 40))
	require.Empty(t, cmp.Diff([]string{
		"machine-bench: case=default writes/machine ours=20.00 capi=40.00 ratio=0.50 (<=0.50 met) | " +
			"rate ours=5.00/s capi=2.50/s ratio=2.00 (>=2.00 met) | heap ours=- capi=- ratio=-",
		"machine-bench: case=off writes/machine ours=30.00 capi=40.00 ratio=0.75 (<=0.50 missed) | " +
			"rate ours=3.33/s capi=2.50/s ratio=1.33 (>=2.00 missed) | heap ours=- capi=- ratio=-",
	}, r.Lines))
	alone := reportOf(measured("off", "ours", 30))
	require.Contains(t, alone.Lines[1], "writes/machine ours=30.00 capi=- ratio=- (<=0.50 not measured)")
}

func TestARequestThatIsMissingInARoundCountsAsNone(t *testing.T) {
	seldom := measured("off", "ours", 1)
	seldom.Requests["up"]["create events"] = 1
	seldom.Figures["reaction"] = 7
	figures, requests := medians([]Run{measured("off", "ours", 1), seldom, measured("off", "ours", 1)})
	require.Equal(t, map[string]float64{"patch machines": 1, "create events": 0}, requests["up"])
	require.InDelta(t, 7, figures["reaction"], 0, "a figure is that of the runs that have it")
}

func TestTheTableHasEveryFigureAndRequest(t *testing.T) {
	r := reportOf(measured("default", "ours", 10), measured("default", "capi", 40))
	var stdout, stderr bytes.Buffer
	require.NoError(t, r.Write(&stdout, &stderr, "text"))
	rows := map[string]bool{}
	for line := range strings.Lines(stdout.String()) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, row := range []string{
		"case default", "ours capi", "writes/machine 10.00 40.00", "rate 10.00/s 2.50/s",
		"heap - -", "beside 7.00 7.00", "up: patch machines 10 40",
	} {
		require.True(t, rows[row], "%s in\n%s", row, &stdout)
	}
	require.True(t, strings.HasSuffix(stdout.String(), "\n"+strings.Join(r.Lines, "\n")+"\n"), "they end the output:\n%s", &stdout)
	require.Empty(t, stderr.String())
}

func TestJSONIsOneObjectAndTheLinesGoToPeople(t *testing.T) {
	r := reportOf(measured("default", "ours", 10), measured("default", "capi", 40))
	var stdout, stderr bytes.Buffer
	require.NoError(t, r.Write(&stdout, &stderr, "json"))
	var back Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &back))
	require.Empty(t, cmp.Diff(r, &back, cmpopts.IgnoreUnexported(Report{})))
	require.Equal(t, strings.Join(r.Lines, "\n")+"\n", stderr.String())
}
