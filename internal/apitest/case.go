package apitest

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

//go:embed given.yaml cases
var files embed.FS

// Env is the environment of a case.
type Env struct {
	// T is the test of the case, a *testing.T. It fails, and ends, with the first difference.
	T interface {
		Helper()
		Fatal(args ...any)
	}
	// Client is a client of the server under test: without a cache, and with a REST mapper that finds new kinds.
	Client client.WithWatch
	// Namespace exists, is empty and is used by one case only. Its name has at most 30 characters.
	Namespace string
}

// Case is one behaviour.
type Case struct {
	// Name is a sentence about the server.
	Name string
	// Reason is why this library or its users depend on it.
	Reason string
	// Steps are taken in this order.
	Steps []step

	err error // of its file
}

// Cases returns all cases in a fixed order. The slice is the caller's. In place of the cases of a file that cannot be read it has one that
// fails.
func Cases() (all []Case) {
	names, _ := fs.Glob(files, "cases/*.yaml") // the pattern is valid
	for _, name := range names {
		var cases []Case
		if err := read(name, &cases); err != nil {
			cases = []Case{{Name: name, err: err}}
		}
		all = append(all, cases...)
	}
	return all
}

func read(name string, into any) error {
	content, err := files.ReadFile(name)
	return errors.Join(err, yaml.UnmarshalStrict(content, into))
}

// Run takes the steps of the case, until one fails. It stops when ctx ends.
func (c Case) Run(ctx context.Context, env Env) {
	r := &run{Env: env, now: map[string][]byte{}, first: map[string][]byte{}}
	defer func() {
		for _, w := range r.watches {
			w.Stop()
		}
	}()
	err := errors.Join(c.err, read("given.yaml", &r.given))
	if err == nil {
		err = r.takeAll(ctx, c.Steps)
	}
	if err != nil {
		env.T.Helper()
		env.T.Fatal(err)
	}
}
