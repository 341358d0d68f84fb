package options

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
)

// Disabled is the address of an endpoint that is not served.
const Disabled = "0"

// Serving says where the manager listens. Each address is host:port, :port, or Disabled.
type Serving struct {
	// ProbeAddress serves /healthz and /readyz.
	ProbeAddress string
	// MetricsAddress serves /metrics.
	MetricsAddress string
	// ProfilerAddress serves /debug/pprof.
	ProfilerAddress string
}

func defaultServing() Serving {
	return Serving{ProbeAddress: ":8081", MetricsAddress: ":8085", ProfilerAddress: Disabled}
}

// AddFlags implements Section.
func (s *Serving) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.ProbeAddress, "health-probe-bind-address", s.ProbeAddress, "`address` of /healthz and /readyz; 0 serves none")
	flags.StringVar(&s.MetricsAddress, "metrics-bind-address", s.MetricsAddress,
		"`address` of /metrics, which is neither encrypted nor protected; 0 serves none")
	flags.StringVar(&s.ProfilerAddress, "pprof-bind-address", s.ProfilerAddress,
		"`address` of /debug/pprof, which is neither encrypted nor protected; 0 serves none. An execution trace, as from "+
			"/debug/pprof/trace?seconds=10, has a task for each pass over an object and a region for each step; go tool trace shows it")
	alias(flags, "profiler-address", "pprof-bind-address", "address")
}

// Validate implements Section.
func (s *Serving) Validate() error {
	var errs []error
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

// Free listens at each address for a moment, and returns an error that names the flag of one that is taken. A manager's own error, which
// may come after its start, names no flag.
func (s *Serving) Free(ctx context.Context) error {
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
