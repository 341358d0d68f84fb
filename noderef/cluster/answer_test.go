package cluster

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheStatusOfAnAnswerDecidesWhatItMeans(t *testing.T) {
	const jsonType, text, html = "application/json", "text/plain; charset=utf-8", "text/html; charset=utf-8"
	for name, tc := range map[string]struct {
		reply reply
		want  bool
	}{
		"an API server that is ready":                {reply{status: 200, mediaType: text}, true},
		"one that says nothing":                      {reply{status: 200}, true},
		"one that speaks JSON":                       {reply{status: 200, mediaType: jsonType}, true},
		"a login page":                               {reply{status: 200, mediaType: html}, false},
		"an API server that refuses the credentials": {reply{status: 401, mediaType: jsonType}, false},
		"a proxy that refuses the credentials":       {reply{status: 401, mediaType: text}, false},
		"a page that refuses the credentials":        {reply{status: 401, mediaType: html}, false},
		"an API server that refuses the path":        {reply{status: 403, mediaType: jsonType}, true},
		"a proxy that refuses the path":              {reply{status: 403, mediaType: html}, true},
		"an API server with too much to do":          {reply{status: 429, mediaType: jsonType}, true},
		"a proxy with too much to do":                {reply{status: 429, mediaType: text}, true},
		"an unknown path":                            {reply{status: 404, mediaType: text}, false},
		"a redirect":                                 {reply{status: 302, mediaType: html}, false},
		"an API server that is not ready":            {reply{status: 500, mediaType: text}, false},
		"a balancer without servers":                 {reply{status: 503, mediaType: html}, false},
		"a proxy that wants credentials of its own":  {reply{status: 407}, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.reply.serves())
		})
	}
}

func TestOnlyAnAPIServerProvesThatAnObjectDoesNotExist(t *testing.T) {
	const node, group = "/api/v1/nodes/n1", "/apis/storage.k8s.io/v1"
	for name, tc := range map[string]struct {
		reply     reply
		elsewhere bool
	}{
		"JSON":                           {reply{status: 404, path: node, mediaType: "application/json"}, false},
		"protobuf":                       {reply{status: 404, path: node, mediaType: "application/vnd.kubernetes.protobuf"}, false},
		"a text about an object":         {reply{status: 404, path: node, mediaType: "text/plain; charset=utf-8"}, true},
		"a page about an object":         {reply{status: 404, path: node, mediaType: "text/html"}, true},
		"nothing about an object":        {reply{status: 404, path: node}, true},
		"a text about a group":           {reply{status: 404, path: group, mediaType: "text/plain; charset=utf-8"}, false},
		"a page about a group":           {reply{status: 404, path: group, mediaType: "text/html"}, true},
		"a text about a kind of a group": {reply{status: 404, path: group + "/volumeattachments", mediaType: "text/plain"}, true},
		"a server below a path":          {reply{status: 404, path: "/clusters/a" + node, mediaType: "text/plain"}, true},
		"a list of groups":               {reply{status: 404, path: "/apis", mediaType: "text/plain"}, false},
		"a list of versions":             {reply{status: 404, path: "/api/v1", mediaType: "text/plain"}, false},
		"something else than an absence": {reply{status: 500, path: node, mediaType: "text/html"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.elsewhere, tc.reply.absentElsewhere())
		})
	}
}

func TestAnswersOfAProxyAreDistinguishedFromThoseOfAnAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		status    int
		mediaType string
		reason    Reason
		says      string
	}{
		"credentials that are refused in plain text": {401, "text/plain", ReasonUnauthorized, "401 Unauthorized at /readyz"},
		"credentials that are refused with a page":   {401, "text/html", ReasonUnauthorized, "401 Unauthorized at /readyz"},
		"a path that is refused with a page":         {403, "text/html", ReasonNone, ""},
		"too much to do, in plain text":              {429, "text/plain", ReasonNone, ""},
		"an unknown path, in plain text":             {404, "text/plain", ReasonUnreachable, "404 Not Found at /readyz"},
		"a breakdown, with a page":                   {500, "text/html", ReasonUnreachable, "500 Internal Server Error at /readyz"},
		"a login page":                               {200, "text/html", ReasonUnreachable, "200 OK at /readyz"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
			s.answerAsProxy(tc.mediaType)
			s.refuse("GET /readyz", tc.status)
			w.reach(keyA, s)
			if tc.reason == ReasonNone {
				w.connected(keyA)
				return
			}
			err := w.becomes(keyA, tc.reason)
			require.ErrorContains(t, err, tc.says)
			if tc.status == http.StatusUnauthorized {
				require.ErrorIs(t, err, errUnauthorized)
			}
		})
	}
}

func TestAnHTMLPageDoesNotProveThatANodeIsAbsent(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	w.reach(keyA, s)
	reader := w.connected(keyA).Cluster.GetAPIReader()
	read := func() error { return reader.Get(t.Context(), types.NamespacedName{Name: "n1"}, &corev1.Node{}) }
	require.True(t, apierrors.IsNotFound(read()), "the API server itself says so")
	s.answerAsProxy("text/html")
	s.refuse("GET /api/v1/nodes/n1", 404)
	err := read()
	require.ErrorContains(t, err, "404 Not Found at /api/v1/nodes/n1")
	require.False(t, apierrors.IsNotFound(err))
}

func TestTheErrorOfAListThatAProxyRefusesHasOneLine(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	s.answerAsProxy("text/html")
	s.refuse("WATCH /api/v1/nodes", 403)
	s.refuse("GET /api/v1/nodes", 403)
	w.reach(keyA, s)
	w.eventually("the problem is reported", func() bool { return w.get(keyA).Problem != nil })
	require.ErrorContains(t, w.get(keyA).Problem, "answers 403 Forbidden")
	require.NotContains(t, w.get(keyA).Problem.Error(), "<html>")
}
