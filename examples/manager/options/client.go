package options

import (
	"errors"
	"flag"
	"fmt"
	"math"
)

// Client has the settings of the client of the API server that has the Machines.
type Client struct {
	// Kubeconfig is a file; empty: what kubectl uses, or the pod's service account.
	Kubeconfig string
	// QPS limits the requests a second; -1 is no limit.
	QPS float64
	// Burst is how many requests may exceed QPS at once; 0: twice QPS.
	Burst int
}

func defaultClient() Client { return Client{QPS: -1} }

// AddFlags implements Section.
func (c *Client) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	flags.Float64Var(&c.QPS, "kube-api-qps", c.QPS,
		"requests a second; -1 leaves the limit to the API server's priority and fairness")
	flags.IntVar(&c.Burst, "kube-api-burst", c.Burst, "requests that may exceed --kube-api-qps at once; 0: twice --kube-api-qps")
}

// Validate implements Section.
func (c *Client) Validate() error {
	var burst error
	if c.Burst < 0 || c.Burst > 0 && c.QPS < 0 {
		burst = fmt.Errorf("--kube-api-burst %d: give 0, or with --kube-api-qps a positive number of requests", c.Burst)
	}
	return errors.Join(validQPS("kube-api-qps", c.QPS), burst)
}

// Bursts returns how many requests may be made at once: Burst, or its default.
func (c *Client) Bursts() int {
	if c.Burst > 0 {
		return c.Burst
	}
	return max(1, int(2*c.QPS))
}

func validQPS(flag string, qps float64) error {
	if math.IsNaN(qps) || qps == 0 || qps < 0 && qps != -1 || qps > math.MaxInt32/2 {
		return fmt.Errorf("--%s %v: give a positive number of requests a second, or -1 for no limit", flag, qps)
	}
	return nil
}
