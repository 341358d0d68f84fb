package main

import (
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
)

// readBase reads an object of deploy/base/manager.yaml.
func readBase(t *testing.T, kind string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("deploy", "base", "manager.yaml"))
	require.NoError(t, err)
	for _, document := range documents(string(text)) {
		if strings.Contains("\n"+document, "\nkind: "+kind+"\n") || strings.Contains(document, "\nkind: "+kind+" #") {
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), into))
			return
		}
	}
	t.Fatalf("there is no %s", kind)
}

func TestTheBaseGrantsWhatItsManagerPrintsAndNoMore(t *testing.T) {
	t.Parallel()
	var deployment appsv1.Deployment
	readBase(t, "Deployment", &deployment)
	o, err := parse(deployment.Spec.Template.Spec.Containers[0].Args, io.Discard)
	require.NoError(t, err, "the manager knows its flags")
	var cluster rbacv1.ClusterRole
	readBase(t, "ClusterRole", &cluster)
	require.Empty(t, cmp.Diff(clusterRole(o).Rules, contract.MergePolicyRules(cluster.Rules)))
	var lease rbacv1.Role
	readBase(t, "Role", &lease)
	require.Empty(t, cmp.Diff(leaderRole(o).Rules, contract.MergePolicyRules(lease.Rules)))
	require.Equal(t, deployment.Namespace, lease.Namespace, "the manager looks for its Lease in its own namespace")
}

// TestExtraFlagsNeedNoMoreRights tries values of all flags that the chart takes as they are.
func TestExtraFlagsNeedNoMoreRights(t *testing.T) {
	t.Parallel()
	allowed := extraFlags(t)
	bases := [][]string{{}, {"--machinesets", "--machinedeployments", "--machinepools", "--machinehealthchecks", "--driver=kwok"}}
	taken := map[string]int{}
	for _, base := range bases {
		o, err := parse(base, io.Discard)
		require.NoError(t, err)
		want := clusterRole(o).Rules
		for _, name := range flagNames(t) {
			for _, value := range []string{"true", "false", "0", "1", "3", "1s", "2h", "/x", ":1", "safe", "cluster-api"} {
				argument := "--" + name + "=" + value
				if o, err = parse(append(base, argument), io.Discard); err != nil || !allowed.MatchString(argument) {
					continue
				}
				taken[name]++
				require.Empty(t, cmp.Diff(want, contract.MergePolicyRules(want, clusterRole(o).Rules)), "%v", append(base, argument))
			}
		}
	}
	require.GreaterOrEqual(t, len(taken), 25, "the chart refuses few of the flags that have no value: %v", taken)
	for _, name := range []string{"machine-safety-collect-orphans", "concurrency", "v"} {
		require.Contains(t, taken, name)
	}
}

// extraFlags is the pattern of the chart for the value extraArgs.
func extraFlags(t *testing.T) *regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("deploy", "chart", "values.schema.json"))
	require.NoError(t, err)
	var schema struct {
		Properties struct {
			ExtraArgs struct{ Items struct{ Pattern string } }
		}
	}
	require.NoError(t, json.Unmarshal(text, &schema))
	return regexp.MustCompile(schema.Properties.ExtraArgs.Items.Pattern)
}

// flagNames are the names of all flags, as --help lists them.
func flagNames(t *testing.T) []string {
	t.Helper()
	var help strings.Builder
	_, err := parse([]string{"--help"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(help.String(), -1) {
		names = append(names, found[1])
	}
	return names
}
