package options_test

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/manager/options"
)

// read returns the flags of a file and of a command line.
func read(t *testing.T, text string, args ...string) (options.Options, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "flags.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	o := options.Defaults()
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	require.NoError(t, flags.Parse(args))
	return o, options.ReadConfig(flags, file)
}

func TestAFileHasTheFlagsThatAreNotGiven(t *testing.T) {
	t.Parallel()
	got, err := read(t, `
# what the platform team wants
machinesets: true
worker-count: 20
status-delay: 2s
kube-api-qps: 12.5
metrics-bind-address: "0"
namespace: [a, b]
leader-election-id: mine
control-plane-resources: []
provider-resources: awsmachines.infrastructure.cluster.x-k8s.io
pprof-bind-address: :6060
`, "--namespace=c", "--concurrency=3", "--leader-election-id", "theirs")
	require.NoError(t, err)
	want := options.Defaults()
	want.Kinds.MachineSets, want.Machines.StatusDelay, want.Client.QPS = true, 2*time.Second, 12.5
	want.Serving.MetricsAddress, want.Serving.ProfilerAddress = "0", ":6060"
	want.Machines.Namespaces, want.Machines.Workers, want.LeaderElection.ID = []string{"c"}, 3, "theirs"
	want.Printing.ControlPlaneResources = nil
	want.Printing.ProviderResources = got.Printing.ProviderResources
	require.Empty(t, cmp.Diff(want, got))
	require.Len(t, got.Printing.ProviderResources, 1)

	got, err = read(t, "namespace: [a, b]\n")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, got.Machines.Namespaces)
	_, err = read(t, "# nothing\n")
	require.NoError(t, err)
}

func TestWhatIsWrongInAFileIsNamedWithItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: 1\nworker-cuont: 3":            "line 2: worker-cuont: there is no such flag",
		"worker-count: ten":                "line 1: worker-count: \"ten\": give a whole number",
		"worker-count: 1.5":                "worker-count: 1.5: give a whole number",
		"worker-count: \"3\"":              "worker-count: \"3\": give a whole number",
		"kube-api-qps: fast":               "kube-api-qps: \"fast\": give a number",
		"machinesets: \"true\"":            "machinesets: \"true\": give true or false",
		"machinesets:":                     "machinesets: null: give true or false",
		"status-delay: 5":                  `status-delay: 5: give a time such as "90s"`,
		"status-delay: soon":               `status-delay: "soon": give a time such as "90s"`,
		"metrics-bind-address: 0":          "metrics-bind-address: 0: give a text, in quotes if it looks like a number",
		"namespace: 3":                     "namespace: 3: give a list of texts",
		"namespace: [a, 3]":                "give a list of texts",
		"provider-resources: [awsm]":       "provider-resources: \"awsm\": give the resource with its group",
		"concurrency: 3":                   "concurrency: write worker-count",
		"config: other.yaml":               "config: this is for the command line only",
		"- worker-count":                   "give names of flags with their values",
		"worker-count: 1\nworker-count: 2": "line 2: key \"worker-count\" already set in map",
		"{":                                "yaml",
	} {
		_, err := read(t, text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "flags.yaml: ")
	}
	_, err := read(t, "worker-count: x\nmachinesets: maybe", "--worker-count=3")
	require.ErrorContains(t, err, "worker-count", "a wrong value is wrong although the flag is given")
	require.ErrorContains(t, err, "machinesets", "all are named at once")
	require.ErrorContains(t, options.ReadConfig(flag.NewFlagSet("", flag.ContinueOnError), "nowhere.yaml"), "--config: open nowhere.yaml")
}

// Each flag has another value than its default, so that one that is lost is found.
func TestWhatIsPrintedCanBeReadBack(t *testing.T) {
	t.Parallel()
	given := options.Defaults()
	flags := flag.NewFlagSet("given", flag.ContinueOnError)
	given.AddFlags(flags)
	flags.VisitAll(func(f *flag.Flag) {
		if strings.HasSuffix(f.Name, "config") || options.AliasOf(f) != "" {
			return
		}
		require.NoError(t, flags.Set(f.Name, otherThan(f)), f.Name)
	})
	var printed strings.Builder
	require.NoError(t, options.PrintConfig(flags, &printed))
	got, err := read(t, printed.String())
	require.NoError(t, err, printed.String())
	require.Empty(t, cmp.Diff(given, got))

	got, err = read(t, printedDefaults(t))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(options.Defaults(), got))
}

func printedDefaults(t *testing.T) string {
	t.Helper()
	o := options.Defaults()
	flags := flag.NewFlagSet("defaults", flag.ContinueOnError)
	o.AddFlags(flags)
	var printed strings.Builder
	require.NoError(t, options.PrintConfig(flags, &printed))
	return printed.String()
}

// otherThan returns a value of a flag that is not its default.
func otherThan(f *flag.Flag) string {
	getter, ok := f.Value.(flag.Getter)
	if !ok {
		return "a.example.com,b.example.com"
	}
	switch value := getter.Get().(type) {
	case bool:
		return map[bool]string{true: "false", false: "true"}[value]
	case time.Duration:
		return (value + time.Hour).String()
	case int, float64:
		return "77"
	default:
		return "true" // a text that must be in quotes
	}
}
