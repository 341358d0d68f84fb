package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// watchInterval is how often status --watch reads.
const watchInterval = time.Second

// status prints how far a rollout is. With --watch it prints each change until the rollout is done, also while the API server does not
// answer for a while.
func (o rolloutOptions) status(ctx context.Context, c deployment.Commands, key types.NamespacedName, out io.Writer) error {
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		ctx = limited
	}
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for last := ""; ; {
		p, err := c.Status(ctx, key)
		switch {
		case ctx.Err() != nil: // the time may end during the read as well
			return notDone(ctx, key)
		case err != nil && o.watch && passes(err):
			p = deployment.Progress{Message: "The API server does not answer, trying again: " + contract.SteadyText(err.Error())}
		case err != nil:
			return err
		}
		text := strings.ReplaceAll(strings.Join(append([]string{p.Message}, p.Blocking...), "\n"), "\n", "\n  ")
		if text != last {
			if err := o.print(out, p, text); err != nil {
				return err
			}
			last = text
		}
		switch {
		case p.Failed:
			return errors.New(p.Message)
		case p.Done || !o.watch:
			return nil
		}
		select {
		case <-ctx.Done():
			return notDone(ctx, key)
		case <-ticker.C:
		}
	}
}

func notDone(ctx context.Context, key types.NamespacedName) error {
	return fmt.Errorf("the rollout of %s is not done: %w", key, ctx.Err())
}

// passes reports whether a failed read may succeed later without a change of the request: the server is not reachable, has too much to do,
// or has failed itself. What is not found or forbidden stays so, and so does a certificate that is not trusted.
func passes(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError
	}
	var certificate *tls.CertificateVerificationError
	var operation *net.OpError
	switch {
	case errors.As(err, &certificate):
		return false
	case errors.As(err, &operation):
		return operation.Op != "remote error" // the server rejects the client's certificate
	}
	return utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err)
}
