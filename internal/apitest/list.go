package apitest

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func listCases() []Case {
	return []Case{
		{"a list in pages shows one moment, whatever happens between the pages", "pages must not miss or repeat an object", listPages},
		{"a page of a selection does not say how many remain", "only whole lists are counted", listSelected},
		{"a list goes on only where a list stopped", "made-up tokens are a bug", listBadToken},
	}
}

// page lists the next ConfigMaps of a list of the case's own objects and returns their names.
func (e Env) page(ctx context.Context, list *corev1.ConfigMapList, limit int64, o ...client.ListOption) (string, error) {
	o = append(o, client.InNamespace(e.Namespace), client.HasLabels{"watched"}, client.Limit(limit), client.Continue(list.Continue))
	*list = corev1.ConfigMapList{}
	err := e.Client.List(ctx, list, o...)
	var names strings.Builder
	for _, cm := range list.Items {
		names.WriteString(cm.Name)
	}
	return names.String(), err
}

func listPages(ctx context.Context, e Env) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		e.must(e.Client.Create(ctx, e.secretOf(name)))
	}
	var list corev1.SecretList
	var version string
	page := func(names string, more bool, remaining int64) {
		next := list.Continue
		list = corev1.SecretList{}
		e.must(e.Client.List(ctx, &list, client.InNamespace(e.Namespace), client.Limit(2), client.Continue(next)))
		var got strings.Builder
		for _, item := range list.Items {
			got.WriteString(item.Name + string(item.Data["k"]))
		}
		if version == "" {
			version = list.ResourceVersion
		}
		e.must(equal("page", got.String(), names), equal("more", list.Continue != "", more),
			equal("version", list.ResourceVersion, version),
			equal("remaining items", ptr.Deref(list.RemainingItemCount, 0), remaining))
	}
	changed := e.secretOf("d")
	page("a1b1", true, 3)
	e.must(e.Client.Delete(ctx, e.secretOf("c")))
	e.must(e.Client.Create(ctx, e.secretOf("bb")))
	e.must(e.read(ctx, changed))
	changed.Data["k"] = []byte("2")
	e.must(e.Client.Update(ctx, changed))
	page("c1d1", true, 1)
	e.must(e.Client.Delete(ctx, e.secretOf("e")))
	page("e1", false, 0)
	version = ""
	page("a1b1", true, 2)
}

func (e Env) secretOf(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace}, Data: map[string][]byte{"k": []byte("1")}}
}

func listSelected(ctx context.Context, e Env) {
	for _, name := range []string{"a", "b", "c"} {
		e.must(e.Client.Create(ctx, e.watched(name)))
	}
	var list corev1.ConfigMapList
	got, err := e.page(ctx, &list, 2)
	e.must(err, equal("page", got, "ab"), holds(list.Continue != "", "the list does not go on"))
	e.must(equal("remaining items", ptr.Deref(list.RemainingItemCount, -1), -1))
	got, err = e.page(ctx, &list, 2)
	e.must(err, equal("page", got, "c"), equal("continue", list.Continue, ""))
}

func listBadToken(ctx context.Context, e Env) {
	bad := refusal{code: 400, reason: metav1.StatusReasonBadRequest}
	o := &client.ListOptions{Namespace: e.Namespace, Continue: "no token", Limit: 1}
	err := bad.check(e.Client.List(ctx, &corev1.ConfigMapList{}, o))
	for _, name := range []string{"a", "b"} {
		err = errors.Join(err, e.Client.Create(ctx, e.watched(name)))
	}
	var list corev1.ConfigMapList
	_, paged := e.page(ctx, &list, 1)
	_, both := e.page(ctx, &list, 1, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	e.must(err, paged, bad.check(both))
}
