package dashboard_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// problems returns what Grafana's types say about the chart's dashboard with some of its text replaced: fields that they do not have, wrong
// types, and missing fields.
func problems(t *testing.T, old, replacement string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", "chart", "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("the dashboard does not have %s", old)
	}
	text = bytes.ReplaceAll(text, []byte(old), []byte(replacement))
	say := func(err error) {
		if err != nil && err.Error() != "" { // the types return an empty list of errors, which is not nil
			found = append(found, err.Error())
		}
	}
	var d dashboard.Dashboard //nolint:staticcheck // the format of the files that Grafana reads; its successor is that of another API
	say(d.UnmarshalJSONStrict(text))
	say(d.Validate())
	var queries struct {
		Panels []struct{ Targets []json.RawMessage }
	}
	if err := json.Unmarshal(text, &queries); err != nil {
		t.Fatal(err)
	}
	if len(queries.Panels) == 0 {
		found = append(found, "there are no panels")
	}
	for _, panel := range queries.Panels {
		if len(panel.Targets) == 0 {
			found = append(found, "a panel has no query")
		}
		for _, target := range panel.Targets { // those of a panel can be for any data source
			var query prometheus.Dataquery
			say(query.UnmarshalJSONStrict(target))
			say(query.Validate())
		}
	}
	return found
}

func TestGrafanasTypesTakeTheDashboard(t *testing.T) {
	t.Parallel()
	if found := problems(t, "", ""); len(found) > 0 {
		t.Error(found)
	}
}

func TestGrafanasTypesRefuseADashboardWithAMistake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ old, replacement string }{
		"an unknown field":            {`"refresh":`, `"refreshes":`},
		"an unknown field of a panel": {`"gridPos":`, `"place":`},
		"an unknown field of a query": {`"legendFormat":`, `"legend":`},
		"a query without expression":  {`"expr":`, `"expression":`},
		"a unit that is a number":     {`"unit": "none"`, `"unit": 1`},
		"no annotations":              {`"annotations": {"list": []},`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := problems(t, tc.old, tc.replacement); len(found) == 0 {
				t.Error("want a problem")
			}
		})
	}
}
