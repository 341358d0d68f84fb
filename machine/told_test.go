package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/patch"
)

// refusesAll is a client whose patches fail.
type refusesAll struct{ acceptsAll }

func (refusesAll) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("refused")
}

func TestFlush(t *testing.T) {
	t.Run("an event of a pass that could not be written is recorded by the one that repeats it alone", func(t *testing.T) {
		now, recorder := time.Unix(1000, 0), events.NewFakeRecorder(10)
		env := scopeWithVolumes(nil, now, 0).env
		env.frame.Options.Recorder = recorder
		pass := func(c client.Client) error {
			env.frame.Writer = patch.NewWriter(c, clocktesting.NewFakePassiveClock(now))
			s := scopeWithVolumes(nil, now, 0)
			s.env = env
			attached(s)
			s.ChangeAnnotation("example.com/changed", contract.SetTo("yes"))
			s.tell("Normal", "Reason", "Act", "it happened")
			return flush(t.Context(), s, nil)
		}
		require.Error(t, pass(refusesAll{}))
		require.Empty(t, recorder.Events)
		require.NoError(t, pass(acceptsAll{}))
		require.Len(t, recorder.Events, 1)
	})
}
