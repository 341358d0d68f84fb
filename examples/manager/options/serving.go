package options

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"path/filepath"
)

// Disabled is the address of an endpoint that is not served.
const Disabled = "0"

// Serving has the addresses that the manager serves on. Each address is host:port, :port, or Disabled.
type Serving struct {
	// ProbeAddress serves /healthz and /readyz.
	ProbeAddress string
	// MetricsAddress serves /metrics.
	MetricsAddress string
	// MetricsSecure serves it by HTTPS, to those whom the API server lets read it. Otherwise it is neither encrypted nor protected.
	MetricsSecure bool
	// MetricsCertPath is a folder with tls.crt and tls.key, which may change; empty: a certificate that the manager signs itself.
	MetricsCertPath string
	// ProfilerAddress serves /debug/pprof.
	ProfilerAddress string
}

func defaultServing() Serving {
	return Serving{ProbeAddress: ":8081", MetricsAddress: ":8085", MetricsSecure: true, ProfilerAddress: Disabled}
}

// AddFlags implements Section.
func (s *Serving) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.ProbeAddress, "health-probe-bind-address", s.ProbeAddress, "`address` of /healthz and /readyz; 0 serves none")
	flags.StringVar(&s.MetricsAddress, "metrics-bind-address", s.MetricsAddress, "`address` of /metrics; 0 serves none")
	flags.BoolVar(&s.MetricsSecure, "metrics-secure", s.MetricsSecure,
		"serve /metrics by HTTPS to those with a token that the API server grants to get that path; false: by plain HTTP to everybody")
	flags.StringVar(&s.MetricsCertPath, "metrics-cert-path", s.MetricsCertPath,
		"`folder` with tls.crt and tls.key for /metrics, which are read again when they change; empty: a certificate signed by itself")
	flags.StringVar(&s.ProfilerAddress, "pprof-bind-address", s.ProfilerAddress,
		"`address` of /debug/pprof, which is neither encrypted nor protected; 0 serves none. An execution trace, as from "+
			"/debug/pprof/trace?seconds=10, has a task for each pass over an object and a region for each step; go tool trace shows it")
	alias(flags, "profiler-address", "pprof-bind-address", "address")
}

// Validate implements Section.
func (s *Serving) Validate() error {
	var errs []error
	if s.MetricsCertPath != "" && !s.MetricsSecure {
		errs = append(errs, fmt.Errorf("--metrics-cert-path %s: plain HTTP has no certificate: give --metrics-secure too", s.MetricsCertPath))
	}
	for _, b := range s.bound() {
		if b.address == Disabled {
			continue
		}
		if _, _, err := net.SplitHostPort(b.address); err != nil {
			errs = append(errs, fmt.Errorf("--%s %q: give host:port, :port, or 0 for none", b.flag, b.address))
		}
	}
	return errors.Join(errs...)
}

// bound is a flag with a listen address.
type bound struct{ flag, address string }

func (s *Serving) bound() []bound {
	return []bound{
		{"health-probe-bind-address", s.ProbeAddress}, {"metrics-bind-address", s.MetricsAddress}, {"pprof-bind-address", s.ProfilerAddress},
	}
}

// Free listens at each address for a moment, and returns an error that names the flag of one that is taken, or of a certificate that cannot
// be read. A manager's own error, which may come after its start, names no flag, and it signs a certificate itself where one is missing.
func (s *Serving) Free(ctx context.Context) error {
	if dir := s.MetricsCertPath; dir != "" && s.MetricsAddress != Disabled {
		if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")); err != nil {
			return fmt.Errorf("--metrics-cert-path %s: %w", dir, err)
		}
	}
	var held []net.Listener
	defer func() { // after all were tried: two flags may have the same address
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for _, b := range s.bound() {
		if b.address == Disabled || b.address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.address)
		if err != nil {
			return fmt.Errorf("--%s %s: %w; give another address, or 0 for none", b.flag, b.address, err)
		}
		held = append(held, listener)
	}
	return nil
}
