package userdata_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestTheLimitsOfCloudsAreKnown(t *testing.T) {
	aws, found := userdata.BudgetOf("AWS")
	require.True(t, found)
	require.Equal(t, userdata.Budget{Cloud: "AWS", Bytes: 16384, Binary: true}, aws)
	openStack, found := userdata.BudgetOf("OpenStack")
	require.True(t, found)
	require.LessOrEqual(t, base64.StdEncoding.EncodedLen(openStack.Bytes), 65535)
	require.Greater(t, base64.StdEncoding.EncodedLen(openStack.Bytes+1), 65535)
	_, found = userdata.BudgetOf("a cloud that does not exist")
	require.False(t, found)
}

func TestADocumentIsMadeSmallerOnlyWhereItMustAndCan(t *testing.T) {
	c := minimal(t, "v1.36.3")
	c.Files = []userdata.File{{Path: "/etc/large", Content: userdata.NewSecret(strings.Repeat("many words ", 2000))}}
	for _, name := range userdata.Names() {
		doc, err := userdata.Render(builtin(t, name), c)
		require.NoError(t, err)
		if doc.Format() == userdata.Ignition {
			require.Less(t, doc.Size(), 16<<10, "its files are compressed")
			continue
		}
		for _, budget := range []userdata.Budget{{Cloud: "bytes", Bytes: 16 << 10, Binary: true}, {Cloud: "text", Bytes: 16 << 10},
			{Cloud: "large", Bytes: 1 << 20}} {
			got, err := doc.Fit(budget)
			switch {
			case budget.Cloud == "large":
				require.NoError(t, err)
				require.True(t, bytes.Equal(doc.Bytes(), got.Bytes()), "it stays readable")
			case budget.Cloud == "text":
				require.Zero(t, got)
				require.ErrorContains(t, err, fmt.Sprintf("of %d bytes is over the limit of text, 16384 bytes: boot in two stages", doc.Size()))
			default:
				require.NoError(t, err)
				require.Less(t, got.Size(), budget.Bytes)
				want, err := userdata.Files(doc.Bytes())
				require.NoError(t, err)
				files, err := userdata.Files(got.Bytes())
				require.NoError(t, err)
				require.Equal(t, want, files)
				again, err := got.Fit(budget)
				require.NoError(t, err)
				require.True(t, bytes.Equal(got.Bytes(), again.Bytes()))
				_, err = got.Fit(userdata.Budget{Cloud: "tiny", Bytes: 100, Binary: true})
				require.ErrorContains(t, err, fmt.Sprintf("of %d bytes is over the limit of tiny", got.Size()), "it is compressed once only")
			}
		}
		_, err = doc.Fit(userdata.Budget{Cloud: "tiny", Bytes: 100, Binary: true})
		require.ErrorContains(t, err, "is over the limit of tiny, 100 bytes")
	}
}
