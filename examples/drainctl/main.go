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
	"k8s.io/client-go/kubernetes"
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

// execute runs one command. An ended ctx is a person's Ctrl-C.
func (p *program) execute(ctx context.Context, args []string) int {
	o, err := parse(args, p.stdout)
	if code, refused := command.Refused("drainctl", err, p.stderr); refused {
		return code
	}
	if o.printRBAC {
		return p.fail(ctx, printRBAC(p.stdout, o))
	}
	s, err := p.open(o)
	if err != nil {
		return p.fail(ctx, err)
	}
	switch o.command {
	case commandUncordon:
		return s.uncordon(ctx)
	case commandPlan:
		return s.plan(ctx)
	}
	return s.run(ctx)
}

// session is one command with a cluster.
type session struct {
	*program
	options
	config *rest.Config
	client kubernetes.Interface
	reader client.Reader
}

func (p *program) open(o options) (*session, error) {
	cfg, err := p.connect(o)
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(cfg)
	if err == nil {
		s := &session{program: p, options: o, config: cfg, client: clientset}
		if s.reader, err = client.New(cfg, client.Options{}); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the configuration for %s cannot be used: %w", cfg.Host, err)
}

// say prints an error. Joined errors get a line each.
func (p *program) say(err error) {
	for line := range strings.Lines(printable(err.Error())) {
		fmt.Fprintf(p.stderr, "drainctl: %s\n", strings.TrimRight(line, "\n"))
	}
}

// fail prints an error from before the first change, and returns the exit code.
func (p *program) fail(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		p.say(errors.New("interrupted; nothing was changed"))
		return exitInterrupted
	}
	p.say(err)
	return exitFailed
}
