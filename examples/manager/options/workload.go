package options

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

// Workload has the settings of the clusters that the Nodes are in.
type Workload struct {
	// Enabled finds Nodes in the clusters that Machines name.
	Enabled bool
	// QPS limits the requests a second to each of them; -1 is no limit.
	QPS float64
	// ProbePath is the path of readiness probes of their API servers.
	ProbePath string
}

func defaultWorkload() Workload { return Workload{QPS: -1, ProbePath: "/readyz"} }

// AddFlags implements Section.
func (w *Workload) AddFlags(flags *flag.FlagSet) {
	flags.BoolVar(&w.Enabled, "workload-clusters", w.Enabled,
		"find a Machine's Node in the workload cluster spec.clusterName, by Secret <cluster>-kubeconfig; "+
			"otherwise in the cluster of the Machines")
	flags.Float64Var(&w.QPS, "workload-api-qps", w.QPS,
		"requests a second to each workload cluster, with bursts of 1.5 times that; -1 for no limit")
	flags.StringVar(&w.ProbePath, "workload-probe-path", w.ProbePath,
		"`path` for readiness probes of workload clusters' API servers; / for Cluster API's in-memory one")
}

// Validate implements Section.
func (w *Workload) Validate() error {
	var path error
	if !strings.HasPrefix(w.ProbePath, "/") {
		path = fmt.Errorf("--workload-probe-path %q: give a path that begins with a slash, such as /readyz", w.ProbePath)
	}
	return errors.Join(validQPS("workload-api-qps", w.QPS), path)
}
