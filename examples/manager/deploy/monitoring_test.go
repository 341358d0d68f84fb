//go:build e2e

package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var (
	alertsFile    = filepath.Join("chart", "files", "alerts.yaml")
	dashboardFile = filepath.Join("chart", "files", "dashboard.json")
	alertTests    = filepath.Join("testdata", "alerts_test.yaml")
)

func TestManifestsHaveAlertsThatPrometheusTakesAndThatFire(t *testing.T) {
	t.Parallel()
	succeeds(t, tool(t, "PROMTOOL"), "check", "rules", alertsFile)
	succeeds(t, tool(t, "PROMTOOL"), "test", "rules", alertTests)
}

func TestManifestsTestEveryAlert(t *testing.T) {
	t.Parallel()
	var alerts struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	readYAML(t, alertsFile, &alerts)
	tests, err := os.ReadFile(alertTests)
	require.NoError(t, err)
	for _, rule := range alerts.Groups[0].Rules {
		firing := `'ALERTS{alertname="` + rule.Alert + `", alertstate="firing", `
		require.Contains(t, string(tests), firing, "no test has it fire")
		quiet := `{expr: 'ALERTS{alertname="` + rule.Alert + `", alertstate="firing"}', eval_time: `
		require.Contains(t, string(tests), quiet, "no test has it quiet")
	}
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// TestManifestsHaveADashboardWithExpressionsThatPrometheusTakes: ../dashboard reads the rest of it with Grafana's types.
func TestManifestsHaveADashboardWithExpressionsThatPrometheusTakes(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	type group struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	var rules []rule
	taken := map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, rule{"panel", strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				place := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				require.Empty(t, taken[place], "%s is in its place", panel.Title)
				require.Less(t, place[0], 24, "Grafana has 24 columns")
				taken[place] = panel.Title
			}
		}
	}
	data, err := yaml.Marshal(map[string][]group{"groups": {{"dashboard", rules}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	succeeds(t, tool(t, "PROMTOOL"), "check", "rules", "--lint=none", file)
}
