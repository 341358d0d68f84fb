package userdata

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Stage says where the second of two stages is kept: in a Secret of the cluster that the machine joins, with a Role and a RoleBinding of
// the same name.
type Stage struct {
	// Namespace and Name are those of the three objects. The Name has to be of one machine.
	Namespace, Name string
	// Labels and Owners are those of the three objects.
	Labels map[string]string
	Owners []metav1.OwnerReference
	// Token is what the machine reads the Secret with; without a value it is the bootstrap token of the Cluster, so that there is one
	// secret less, which expires by itself. It must be of one machine, or a machine can read the data of others.
	Token Secret
	// Subject is who Token is. It is required with Token and known without: the user system:bootstrap:ID.
	Subject rbacv1.Subject
}

// Stages are the two stages of a first boot. The objects are new; the caller creates them before the machine, and may delete them once it
// has joined.
type Stages struct {
	// First is small, has only what is needed to fetch the second, and fits every cloud.
	First Document
	// Secret has the second stage as a shell script, under the keys of the bootstrap contract: value and format.
	Secret *corev1.Secret
	// Role allows to get that Secret and nothing else, and RoleBinding gives it to the token.
	Role        *rbacv1.Role
	RoleBinding *rbacv1.RoleBinding
}

// RenderStages is Render for data that is too large for a cloud. The first stage trusts only Cluster.CA, and has its token in a file of
// mode 0600. Errors are those of Render, and *ConfigError for fields of the Stage. A Secret has at most 1 MiB.
func RenderStages(system System, config Config, stage Stage) (Stages, error) {
	if err := errors.Join(stage.validate(), system.Validate(config)); err != nil {
		return Stages{}, err
	}
	v := valuesOf(system, config)
	v.Fetch = Fetch{
		URL: fmt.Sprintf("%s/api/v1/namespaces/%s/secrets/%s", strings.TrimSuffix(config.Cluster.Server, "/"),
			stage.Namespace, stage.Name),
		Token: stage.Token,
	}
	if stage.Token.IsZero() {
		v.Fetch.Token = config.Cluster.Token
		stage.Subject = bootstrapUser(config.Cluster.Token)
	}
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
	stages := stage.objects(second)
	stages.First = first
	return stages, nil
}

func (s Stage) validate() error {
	var p problems
	p.addUnless(len(validation.IsDNS1123Label(s.Namespace)) == 0, "Stage.Namespace", "must be the name of a namespace")
	p.addUnless(validName(s.Name), "Stage.Name", "must be the name of a Secret")
	p.addUnless(s.Token.IsZero() || s.Subject.Name != "", "Stage.Subject", "must say who Token is")
	plain, err := quotePlain(s.Token)
	p.addUnless(err == nil && plain == s.Token.Reveal(), "Stage.Token", "must be a bearer token without spaces")
	return errors.Join(p.errs...)
}

func (s Stage) objects(second Document) Stages {
	meta := func() metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels, OwnerReferences: s.Owners}
		return *m.DeepCopy()
	}
	immutable := true
	return Stages{
		Secret: &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta(), Immutable: &immutable, Type: SecretType,
			Data: map[string][]byte{"value": second.Bytes(), "format": []byte(second.Format())},
		},
		Role: &rbacv1.Role{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta(),
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{s.Name},
				Verbs: []string{"get"}}},
		},
		RoleBinding: &rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: s.Name},
			Subjects: []rbacv1.Subject{s.Subject},
		},
	}
}
