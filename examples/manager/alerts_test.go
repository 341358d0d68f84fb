package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"
)

// alert is one rule of the chart.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// readAlerts reads the alerts of the chart.
func readAlerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	read(t, "alerts.yaml", &file, func(data []byte, into any) error { return yaml.Unmarshal(data, into) })
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

func TestAlertsSayWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	ofKubectl := []string{"all-namespaces", "selector"}
	known := append(flagNames(t), ofKubectl...)
	for _, a := range readAlerts(t) {
		require.Contains(t, []string{"critical", "warning"}, a.Labels["severity"], a.Alert)
		require.Greater(t, len(a.Annotations["summary"]), 20, a.Alert)
		require.Greater(t, len(a.Annotations["description"]), 100, "%s: say what to do", a.Alert)
		kept := strings.Join(regexp.MustCompile(`\bby \([^)]*\)`).FindAllString(a.Expr, -1), " ")
		text := a.Annotations["summary"] + " " + a.Annotations["description"]
		for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
			require.Regexp(t, `\b`+label[1]+`\b`, kept, "%s names a label that its expression does not keep", a.Alert)
		}
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, known, flag[1], a.Alert)
		}
	}
}

// alertExpressions are the PromQL expressions of the alerts.
func alertExpressions(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, a := range readAlerts(t) {
		all = append(all, a.Expr)
	}
	return all
}

// dashboardExpressions are those of the dashboard.
func dashboardExpressions(t *testing.T) []string {
	t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	read(t, "dashboard.json", &dashboard, json.Unmarshal)
	var all []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

func read(t *testing.T, file string, into any, unmarshal func([]byte, any) error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("deploy", "chart", "files", file))
	require.NoError(t, err)
	require.NoError(t, unmarshal(text, into))
}

// metricsIn returns the names of metrics in an expression. promtool checks the syntax, so that it can be read in a simple way.
func metricsIn(expression string) []string {
	for _, without := range []string{`"(\\.|[^"\\])*"`, `\{[^}]*\}`, `\[[^]]*\]`, `\b(by|without|on|ignoring|group_[a-z]+) *\([^)]*\)`} {
		expression = regexp.MustCompile(without).ReplaceAllString(expression, " ")
	}
	var names []string
	for _, found := range regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*) *(\(?)`).FindAllStringSubmatch(expression, -1) {
		operator := slices.Contains([]string{"and", "or", "unless", "by", "bool", "offset"}, found[1])
		if found[2] == "" && !operator { // otherwise it is a function
			names = append(names, found[1])
		}
	}
	return names
}

func TestMetricsAreFoundInExpressions(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string][]string{
		`sum by (a, b) (rate(m_total{x="y{z}", c!~"d"}[$__rate_interval])) > 0.05`: {"m_total"},
		`absent(m)`: {"m"},
		`sum (m) by (a) unless on (a) increase(n_count[1h]) == 0 and o`: {"m", "n_count", "o"},
		`histogram_quantile(0.9, sum by (le) (rate(m_bucket[5m])))`:     {"m_bucket"},
	} {
		require.Equal(t, want, metricsIn(expression), expression)
	}
}

// namesMetrics: alerts and the dashboard name metrics that the manager registers, and alerts exist for what the manager alone knows. It is
// called once a manager was made, because the registry belongs to the process.
func namesMetrics(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, expression := range append(alertExpressions(t), dashboardExpressions(t)...) {
		found := metricsIn(expression)
		require.NotEmpty(t, found, expression)
		for _, name := range found {
			seen[name] = true
			histogram := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
			require.True(t, isRegistered(name) || isRegistered(histogram), "nothing registers %s in %s", name, expression)
		}
	}
	require.GreaterOrEqual(t, len(seen), 15, seen)
	require.False(t, isRegistered("machinist_no_such_metric"))
}

// isRegistered reports whether there is a metric with a name: a registry has one help text for each name.
func isRegistered(name string) bool {
	probe := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "Made by a test, and nothing else has this text."})
	if metrics.Registry.Register(probe) != nil {
		return true
	}
	metrics.Registry.Unregister(probe)
	return false
}
