package floor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// Command is the first argument of a process of this program that calls Child.
const Command = "floor"

// workers is how many requests are under way at most.
const workers = 20

// Child makes all requests of the input. The arguments are a kubeconfig file of the API server, and one of the server that answers as the
// API server has answered the other.
func Child(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) error {
	if len(args) != 2 {
		return errors.New("wrong arguments: give two kubeconfig files")
	}
	f, err := newFollower(args[0], args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var cached sync.WaitGroup
	defer cached.Wait()
	defer cancel()
	cached.Go(func() { _ = f.cache.Start(ctx) }) // what goes wrong shows in what is made
	made, err := f.all(ctx, stdin)
	fmt.Fprintf(stderr, "%d requests, %d of them failed\n", made.sent, made.failed)
	return err
}

// newFollower has clients, and caches without informers.
func newFollower(kubeconfig, answers string) (*follower, error) {
	config, err := configOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	toAnswers, err := configOf(answers)
	if err != nil {
		return nil, err
	}
	all := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(all), api.ClusterAPI.AddToScheme(all)); err != nil {
		return nil, err
	}
	c, err := cache.New(config, cache.Options{Scheme: all, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, err
	}
	live, err := client.New(config, client.Options{Scheme: all})
	if err != nil {
		return nil, err
	}
	sends, err := client.New(toAnswers, client.Options{Scheme: all, Mapper: live.RESTMapper()})
	if err != nil {
		return nil, err
	}
	return &follower{cache: c, client: sends, live: live}, nil
}

func configOf(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS, config.UserAgent = -1, Command
	return config, nil
}

// all makes the requests of the input, several at a time.
func (f *follower) all(ctx context.Context, input io.Reader) (counted, error) {
	requests := make(chan cluster.AuditEvent)
	var under sync.WaitGroup
	for range workers {
		under.Go(func() {
			for request := range requests {
				f.count(f.do(ctx, request))
			}
		})
	}
	lines := bufio.NewReader(input)
	var err error
	for err == nil {
		var line []byte
		if line, err = lines.ReadBytes('\n'); err != nil {
			break
		}
		var request cluster.AuditEvent
		if err = json.Unmarshal(line, &request); err == nil {
			requests <- request
		}
	}
	close(requests)
	under.Wait()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counted, err
}
