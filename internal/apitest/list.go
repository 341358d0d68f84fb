package apitest

import (
	"context"
	"errors"
	"fmt"
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

func listPages(ctx context.Context, e Env) error {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if err := e.Client.Create(ctx, e.secretOf(name)); err != nil {
			return err
		}
	}
	var list corev1.SecretList
	var version string
	page := func(names string, more bool, remaining int64) func() error {
		return func() error {
			next := list.Continue
			list = corev1.SecretList{}
			if err := e.Client.List(ctx, &list, client.InNamespace(e.Namespace), client.Limit(2), client.Continue(next)); err != nil {
				return err
			}
			var got strings.Builder
			for _, item := range list.Items {
				got.WriteString(item.Name + string(item.Data["k"]))
			}
			if version == "" {
				version = list.ResourceVersion
			}
			return errors.Join(equal("page", got.String(), names), equal("more", list.Continue != "", more),
				equal("version", list.ResourceVersion, version),
				equal("remaining items", ptr.Deref(list.RemainingItemCount, 0), remaining))
		}
	}
	changed := e.secretOf("d")
	return first(
		page("a1b1", true, 3),
		func() error { return e.Client.Delete(ctx, e.secretOf("c")) },
		func() error { return e.Client.Create(ctx, e.secretOf("bb")) },
		func() error { return e.read(ctx, changed) },
		func() error { changed.Data["k"] = []byte("2"); return e.Client.Update(ctx, changed) },
		page("c1d1", true, 1),
		func() error { return e.Client.Delete(ctx, e.secretOf("e")) },
		page("e1", false, 0),
		func() error { version = ""; return page("a1b1", true, 2)() },
	)
}

func (e Env) secretOf(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace}, Data: map[string][]byte{"k": []byte("1")}}
}

func listSelected(ctx context.Context, e Env) error {
	for _, name := range []string{"a", "b", "c"} {
		if err := e.Client.Create(ctx, e.watched(name)); err != nil {
			return err
		}
	}
	var list corev1.ConfigMapList
	got, err := e.page(ctx, &list, 2)
	if err := errors.Join(err, equal("page", got, "ab"), holds(list.Continue != "", "the list does not go on")); err != nil {
		return err
	}
	if list.RemainingItemCount != nil {
		return fmt.Errorf("%d items are said to remain", *list.RemainingItemCount)
	}
	got, err = e.page(ctx, &list, 2)
	return errors.Join(err, equal("page", got, "c"), equal("continue", list.Continue, ""))
}

func listBadToken(ctx context.Context, e Env) error {
	bad := refusal{code: 400, reason: metav1.StatusReasonBadRequest}
	o := &client.ListOptions{Namespace: e.Namespace, Continue: "no token", Limit: 1}
	err := bad.check(e.Client.List(ctx, &corev1.ConfigMapList{}, o))
	for _, name := range []string{"a", "b"} {
		err = errors.Join(err, e.Client.Create(ctx, e.watched(name)))
	}
	var list corev1.ConfigMapList
	_, paged := e.page(ctx, &list, 1)
	_, both := e.page(ctx, &list, 1, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	return errors.Join(err, paged, bad.check(both))
}
