package pass

import (
	"context"
	"runtime/trace"

	"k8s.io/apimachinery/pkg/types"
)

// regionWrite is the region in which a pass writes its object. The regions of steps have the names of the steps.
const regionWrite = "write"

// beginTask begins a task in the execution trace of this process, if one is being recorded: a pass over one object. The caller calls end.
// It costs nothing otherwise.
func beginTask(ctx context.Context, kind string, key types.NamespacedName) (task context.Context, end func()) {
	if !trace.IsEnabled() {
		return ctx, func() {}
	}
	ctx, pass := trace.NewTask(ctx, "reconcile "+kind)
	trace.Log(ctx, "object", key.String())
	return ctx, pass.End
}
