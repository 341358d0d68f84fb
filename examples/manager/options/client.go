package options

import (
	"flag"
	"fmt"
	"math"
)

// Client says how the API server of the Machines is reached.
type Client struct {
	// Kubeconfig is a file; empty: what kubectl uses, or the pod's service account.
	Kubeconfig string
	// QPS limits the requests a second; -1 is no limit.
	QPS float64
}

func defaultClient() Client { return Client{QPS: -1} }

// AddFlags implements Section.
func (c *Client) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	flags.Float64Var(&c.QPS, "kube-api-qps", c.QPS,
		"requests a second, with bursts of twice that; -1 leaves the limit to the API server's priority and fairness")
}

// Validate implements Section.
func (c *Client) Validate() error { return validQPS("kube-api-qps", c.QPS) }

func validQPS(flag string, qps float64) error {
	if math.IsNaN(qps) || qps == 0 || qps < 0 && qps != -1 || qps > math.MaxInt32/2 {
		return fmt.Errorf("--%s %v: give a positive number of requests a second, or -1 for no limit", flag, qps)
	}
	return nil
}
