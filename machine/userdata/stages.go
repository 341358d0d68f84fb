package userdata

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Stages are the two stages of a first boot. The objects are new; the caller creates them before the machine, and may delete them after the
// machine has joined.
type Stages struct {
	// First is small, contains only what is needed to fetch the second stage, and fits every cloud.
	First Document
	// Secret contains the second stage as a shell script, under the keys of the bootstrap contract: value and format.
	Secret *corev1.Secret
	// Role allows reading only that Secret, and RoleBinding grants it to the token.
	Role        *rbacv1.Role
	RoleBinding *rbacv1.RoleBinding
}

// RenderStages is Render for data that is too large for a cloud. The second stage is a Secret of the cluster that the machine joins, which
// the machine reads with its bootstrap token. key is the key of the Secret, the Role and the RoleBinding, and must be unique for each
// machine. The caller may add labels and owners to the objects. The first stage trusts only Cluster.CA, and has the token in a file of mode
// 0600. Errors are those of Render. A Secret can have at most 1 MiB.
func RenderStages(system System, config Config, key types.NamespacedName) (Stages, error) {
	if len(validation.IsDNS1123Label(key.Namespace)) > 0 || !validName(key.Name) {
		return Stages{}, errors.New("key: must be the namespace and the name of a Secret")
	}
	if err := system.validate(config); err != nil {
		return Stages{}, err
	}
	v := valuesOf(system, config)
	v.FetchURL = fmt.Sprintf("%s/api/v1/namespaces/%s/secrets/%s", strings.TrimSuffix(config.Cluster.Server, "/"), key.Namespace, key.Name)
	first, err := system.render(&v, stageFirst, system.Format())
	if err != nil {
		return Stages{}, err
	}
	second, err := system.render(&v, "", Script)
	if err != nil {
		return Stages{}, err
	}
	if size := second.Size(); size > corev1.MaxSecretSize {
		return Stages{}, fmt.Errorf("the second stage has %d bytes, more than a Secret can have, %d", size, corev1.MaxSecretSize)
	}
	id, _, _ := strings.Cut(config.Cluster.Token.Reveal(), ".")
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	return Stages{
		First: first,
		Secret: &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta, Immutable: new(true), Type: SecretType,
			Data: map[string][]byte{"value": second.Bytes(), "format": []byte(second.Format())},
		},
		Role: &rbacv1.Role{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{key.Name},
				Verbs: []string{"get"}}},
		},
		RoleBinding: &rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: key.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:bootstrap:" + id}},
		},
	}, nil
}
