package provider_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machine/provider"
)

func TestCredentialsComeFromTheMetadataServiceAndAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		content, failure := map[string]string{"/id": "i", "/key": "k"}, error(nil)
		metadata := provider.FromMetadata(map[string]string{"id": "/id", "key": "/key"}, func(ctx context.Context, path string) ([]byte, error) {
			asked++
			_, limited := ctx.Deadline()
			require.True(t, limited)
			if text, found := content[path]; found || failure != nil {
				return []byte(text), failure
			}
			return nil, fmt.Errorf("%w: 404", provider.ErrNoCredentials)
		})
		want := provider.Values{"id": []byte("i"), "key": []byte("k")}
		for range 3 {
			values, err := metadata.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, values)
			delete(values, "id") // the caller's own
		}
		require.Equal(t, 2, asked)
		time.Sleep(time.Minute) // of the test's own time
		failure = errors.New("timeout")
		_, err := metadata.Read(t.Context())
		require.Equal(t, provider.Unavailable, provider.ClassOf(err))
		require.NotErrorIs(t, err, provider.ErrNoCredentials, "what cannot be read may exist")
		failure = nil
		delete(content, "/key")
		_, err = metadata.Read(t.Context())
		require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))
		require.ErrorContains(t, err, "[key]")
		clear(content)
		other := func(context.Context) (provider.Values, error) { return want, nil }
		values, err := provider.FirstOf(metadata, other).Read(t.Context())
		require.NoError(t, err, "the next source has them")
		require.Equal(t, want, values)
	})
}
