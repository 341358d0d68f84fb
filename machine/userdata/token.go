package userdata

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretType is the type of a bootstrap data secret. Rule: Cluster API's bootstrap contract.
const SecretType corev1.SecretType = "cluster.x-k8s.io/secret"

// TokenSecret returns the Secret of a bootstrap token for the cluster that a machine joins; the caller creates it, and the control plane
// deletes it after it has expired. Generate a separate token for each machine with crypto/rand: tokens that are derived from names or
// shared by a pool can be guessed, or expire before slow machines join (gardener's have three random characters, Kubermatic's are shared by
// a MachineDeployment). Groups are additional groups, which begin with system:bootstrappers:. The description names the machine, for
// people.
func TokenSecret(token Secret, expires time.Time, description string, groups ...string) (*corev1.Secret, error) {
	parts := tokenForm.FindStringSubmatch(token.Reveal())
	if parts == nil {
		return nil, errors.New("token: " + tokenProblem)
	}
	object := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + parts[1]},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(parts[1]), "token-secret": []byte(parts[2]), "description": []byte(description),
			"expiration":                     []byte(expires.UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte("true"),
			"usage-bootstrap-signing":        []byte("true"),
		},
	}
	if len(groups) > 0 {
		object.Data["auth-extra-groups"] = []byte(strings.Join(groups, ","))
	}
	return object, nil
}
