package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// lab is what runs of a benchmark share: a control plane, and the clients that set it up, which no arm uses.
type lab struct {
	options

	kind   kind
	printf progress.Printf
	built  arm.Programs
	plane  *cluster.ControlPlane
	client client.Client
	cached client.Reader // the cache of the provider
}

// Run measures what the arguments ask for and prints the result, even a partial one after an error. Errors match
// cli.ErrUsage for wrong arguments.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	at := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == word })
	if at < 0 {
		return fmt.Errorf("%w: no benchmark %q: there are %v", cli.ErrUsage, word, Names())
	}
	l := &lab{kind: kinds()[at], printf: progress.New(stderr, word+"-bench")}
	var err error
	if l.options, err = parse(l.kind, args[1:], stdout); err != nil {
		return err
	}
	runs, err := l.measure(ctx)
	if len(runs) == 0 {
		return err
	}
	report := measure.NewReport(word, l.size, l.rounds, l.cases, l.arms, l.kind.columns, runs)
	if err != nil {
		report.Lines = nil
	}
	return errors.Join(err, report.Write(stdout, stderr, l.output))
}

// measure makes all runs, on one control plane or on one each. It returns those that it has made, even with an error.
func (l *lab) measure(ctx context.Context) (runs []measure.Run, err error) {
	dir, err := os.MkdirTemp("", "machinist-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Before a control plane runs, which would be in the way of the compiler.
	if l.built, err = arm.Build(ctx, l.arms, dir, l.printf); err != nil {
		return nil, err
	}
	if !l.kind.fresh {
		err = l.onControlPlane(ctx, func(ctx context.Context) error {
			runs, err = l.all(ctx, l.one)
			return err
		})
		return runs, err
	}
	return l.all(ctx, func(ctx context.Context, run *measure.Run) error {
		return l.onControlPlane(ctx, func(ctx context.Context) error { return l.one(ctx, run) })
	})
}

// all makes the runs of every arm in every case and round. The arms take turns to begin, so that other load of the computer affects all.
func (l *lab) all(ctx context.Context, one func(context.Context, *measure.Run) error) (runs []measure.Run, err error) {
	for round := range l.rounds {
		for _, of := range l.cases {
			for _, name := range measure.InTurn(l.kind.armsOf(of, l.arms), round) {
				run := measure.NewRun(of, name, round+1)
				if err := one(ctx, run); err != nil {
					return runs, fmt.Errorf("%s %s, round %d: %w", of, name, round+1, err)
				}
				runs = append(runs, *run)
			}
		}
	}
	return runs, nil
}

func (l *lab) one(ctx context.Context, run *measure.Run) error {
	l.printf("%s %s, round %d of %d", run.Case, run.Arm, run.Round, l.rounds)
	return l.kind.one(ctx, l, run)
}

// onControlPlane calls f with a control plane, which is prepared. The context of f also ends when a component exits; the reason is its
// cause.
func (l *lab) onControlPlane(ctx context.Context, f func(context.Context) error) (err error) {
	o := cluster.Options{KeepDir: l.keep, Log: l.printf}
	if l.kind.plane != nil {
		l.kind.plane(l.options, &o)
	}
	if l.plane, err = cluster.Start(ctx, o); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, l.plane.Stop())
		if l.keep {
			l.printf("the logs are in %s", l.plane.Dir())
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-l.plane.Died():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	if l.client, err = client.New(l.config("bench"), client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	if err := l.kind.prepare(ctx, l); err != nil {
		return fmt.Errorf("prepare the control plane: %w", err)
	}
	return f(ctx)
}

func (l *lab) config(agent string) *rest.Config {
	config := l.plane.Config()
	config.UserAgent = agent
	return config
}
