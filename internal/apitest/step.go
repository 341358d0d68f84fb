package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

const (
	waitLimit = 2 * time.Minute
	waitStep  = 20 * time.Millisecond
)

// step is a request and what is expected of it.
type step struct {
	repeated              bool // until it is as expected
	verb, object, manager string
	body                  string // JSON

	Force  *bool
	DryRun []string
	// Fails is the code and the reason of a refusal. Cause is a reason of its causes, Message a part of its message.
	Fails, Cause, Message string
	// Shows has what is expected of the answer, a line each. Then has what the same answer must show at once, where Shows is waited for.
	Shows, Then string
}

// UnmarshalJSON decodes a request, or a mapping from a request to its body with fields of a step beside it. A request is written
// "VERB OBJECT" or "VERB OBJECT as MANAGER", and "eventually" before it repeats it.
func (s *step) UnmarshalJSON(data []byte) error {
	var request string
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &request) != nil {
		if err := json.Unmarshal(data, &all); err != nil {
			return err
		}
	}
	for name, value := range all {
		if strings.Contains(name, " ") && request == "" {
			request, s.body = name, strings.TrimPrefix(string(value), "null")
			delete(all, name)
		}
	}
	request, s.repeated = strings.CutPrefix(request, "eventually ")
	request, s.manager, _ = strings.Cut(request, " as ")
	s.verb, s.object, _ = strings.Cut(request, " ")
	type fields step
	rest, err := json.Marshal(all)
	return errors.Join(err, yaml.UnmarshalStrict(rest, (*fields)(s)))
}

// takeAll takes steps, until one fails.
func (r *run) takeAll(ctx context.Context, steps []step) error {
	if len(steps) == 0 {
		return errors.New("there are no steps")
	}
	for i, s := range steps {
		if err := r.take(ctx, s); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, r.doing, err)
		}
	}
	return nil
}

func (r *run) take(ctx context.Context, s step) error {
	once := func(ctx context.Context) error { return r.compare(s, r.do(ctx, s)) }
	attempt := once
	if s.repeated {
		attempt = func(ctx context.Context) error { return eventually(ctx, once) }
	}
	if err := attempt(ctx); err != nil {
		return err
	}
	return r.check(s.Then)
}

// eventually repeats an attempt until it succeeds.
func eventually(ctx context.Context, attempt func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, waitStep, waitLimit, true, func(ctx context.Context) (bool, error) {
		last = attempt(ctx)
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// do carries a step out: the steps that given.yaml has for its verb, or one request.
func (r *run) do(ctx context.Context, s step) error {
	if steps := slices.Clone(r.Steps[s.verb]); steps != nil {
		for i := range steps {
			steps[i].object = strings.ReplaceAll(steps[i].object, "OBJECT", s.object)
		}
		return r.takeAll(ctx, steps)
	}
	r.begin(s.verb, s.object)
	switch s.verb {
	case "define":
		return r.define(ctx, r.kind())
	case "list", "watch", "delete-all":
		return r.collection(ctx, s)
	case "next":
		return r.events(ctx, s.body)
	}
	return r.send(ctx, s)
}
