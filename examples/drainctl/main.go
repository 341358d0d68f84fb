package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/examples/command"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitBlocked     = 3
	exitOutOfTime   = 4
	exitInterrupted = 130
)

func main() {
	// Log lines of client-go would disturb the display; its errors are returned.
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// execute is main without the process.
func execute(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return command.Run("drainctl", command.Codes{Done: exitDone, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		p := &program{stdout: out, stderr: stderr, connect: connect, now: time.Now}
		return p.execute(ctx, args)
	})
}

// program is what all commands share. Tests replace the cluster.
type program struct {
	stdout, stderr io.Writer
	connect        func(options) (*rest.Config, error)
	now            func() time.Time
	quick          bool // tests wait for less
}

// session is one command with a cluster.
type session struct {
	*program
	options
	config *rest.Config
	client client.Client
}

// execute runs one command. An ended ctx is a person's Ctrl-C.
func (p *program) execute(ctx context.Context, args []string) int {
	o, err := parse(args, p.stdout)
	if code, refused := command.Refused("drainctl", err, p.stderr); refused {
		return code
	}
	s := &session{program: p, options: o}
	if s.config, err = p.connect(o); err != nil {
		return p.fail(ctx, err)
	}
	if s.client, err = client.New(s.config, client.Options{}); err != nil {
		return p.fail(ctx, fmt.Errorf("the configuration for %s cannot be used: %w", s.config.Host, err))
	}
	if o.command == commandPlan {
		return s.plan(ctx)
	}
	return s.run(ctx)
}

// fail prints an error from before the first change, each of several in a line, and returns the exit code.
func (p *program) fail(ctx context.Context, err error) int {
	code := exitFailed
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		err, code = errors.New("interrupted; nothing was changed"), exitInterrupted
	}
	for line := range strings.Lines(printable(err.Error())) {
		fmt.Fprintf(p.stderr, "drainctl: %s\n", strings.TrimRight(line, "\n"))
	}
	return code
}
