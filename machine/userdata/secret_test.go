package userdata_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestNoSecretIsPrinted(t *testing.T) {
	c := everything(t, "v1.36.3", userdata.IPv4)
	c.Files[0].Content = userdata.NewSecret(token)
	c.Parameters = map[string]userdata.Secret{"a": userdata.NewSecret(token)}
	system := builtin(t, userdata.Flatcar)
	doc, err := userdata.Render(system, c)
	require.NoError(t, err)
	stages, err := userdata.RenderStages(system, c, types.NamespacedName{Namespace: "a", Name: "b"})
	require.NoError(t, err)
	joined, err := userdata.Parse(doc.Bytes())
	require.NoError(t, err)
	files, err := userdata.Files(doc.Bytes())
	require.NoError(t, err)
	type within struct { // fmt calls no methods of unexported fields
		config userdata.Config
		doc    userdata.Document
		joined userdata.Joined
		files  []userdata.File
	}
	for _, value := range []any{c, &c, c.Cluster, c.Cluster.Token, &c.Cluster.Token, c.Parameters, c.Files, c.Proxy, doc, &doc,
		stages.First, joined, files, within{c, doc, joined, files}, &within{c, doc, joined, files}, map[string]any{"a": c, "b": doc}} {
		texts := []string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, value))
		}
		stored, err := json.Marshal(value)
		require.NoError(t, err)
		for _, text := range append(texts, string(stored)) {
			for _, secret := range []string{token, fmt.Sprintf("%x", token), "p%40ss$word", "[97 98 99"} {
				if strings.Contains(text, secret) {
					t.Errorf("%T is printed with a secret: %.200s", value, text)
				}
			}
		}
	}
	require.Equal(t, "REDACTED REDACTED  true", fmt.Sprintf("%v %#v %s %v", c.Cluster.Token, c.Cluster.Token, userdata.Secret{},
		userdata.NewSecret("").IsZero()))
	require.Equal(t, fmt.Sprintf("ignition document of %d bytes", doc.Size()), fmt.Sprintf("%v", doc))
	require.True(t, c.Cluster.Token.Equal(userdata.NewSecret(token)))
	require.False(t, c.Cluster.Token.Equal(userdata.Secret{}))
}
