package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
)

// Values of Logging.Format.
const (
	// LogText is one line of key=value pairs.
	LogText = "text"
	// LogJSON is one JSON object a line.
	LogJSON = "json"
)

// Logging has the level and the format of the log.
type Logging struct {
	// Format is LogText or LogJSON.
	Format string
	// Verbosity is 0 to 10.
	Verbosity int
}

func defaultLogging() Logging { return Logging{Format: LogText} }

// AddFlags implements Section.
func (l *Logging) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&l.Format, "log-format", l.Format, "text or json, on stderr")
	flags.IntVar(&l.Verbosity, "v", l.Verbosity, "log verbosity; 1 and more are for debugging")
}

// Validate implements Section.
func (l *Logging) Validate() error {
	var errs []error
	if l.Format != LogText && l.Format != LogJSON {
		errs = append(errs, fmt.Errorf("--log-format %q: give text or json", l.Format))
	}
	if l.Verbosity < 0 || l.Verbosity > 10 {
		errs = append(errs, fmt.Errorf("--v %d: give 0 to 10", l.Verbosity))
	}
	return errors.Join(errs...)
}

// Handler returns what writes the logs to out.
func (l *Logging) Handler(out io.Writer) slog.Handler {
	level := &slog.HandlerOptions{Level: slog.Level(-l.Verbosity)} // logr's V(n) is slog's level -n
	if l.Format == LogJSON {
		return slog.NewJSONHandler(out, level)
	}
	return slog.NewTextHandler(out, level)
}
