package external_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/internal/external"
)

// loud is a reader that logs what it reads, as client-go does.
type loud struct{ client.Reader }

func (loud) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	secret := obj.(*corev1.Secret) //nolint:forcetypeassert // of the test
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	secret.Data = map[string][]byte{"value": []byte("token-of-the-first-boot")}
	logr.FromContextOrDiscard(ctx).V(8).Info("Response Body", "body", fmt.Sprintf("%s", secret.Data))
	return nil
}

func TestNoLogHasWhatASecretSays(t *testing.T) {
	t.Parallel()
	logged := ""
	log := funcr.New(func(_, args string) { logged += args }, funcr.Options{Verbosity: 10})
	secret, err := external.ReadSecret(logr.NewContext(t.Context(), log), loud{}, types.NamespacedName{Namespace: "default", Name: "boot"})
	require.NoError(t, err)
	require.Equal(t, "token-of-the-first-boot", string(secret.Data["value"]))
	require.Empty(t, logged)
}
