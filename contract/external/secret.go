package external

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadSecret reads a Secret without a logger in the context. client-go logs the body of each answer with the logger of the context from
// verbosity 8 on, and the context of a pass has one. The error is that of the reader. It is safe for concurrent use.
func ReadSecret(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(logr.NewContext(ctx, logr.Discard()), key, secret); err != nil {
		return nil, err
	}
	return secret, nil
}
