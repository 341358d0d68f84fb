package apitest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	waitLimit = 2 * time.Minute
	waitStep  = 20 * time.Millisecond
)

// must ends the case unless all errors are nil.
func (e Env) must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		e.T.Helper()
		e.T.Fatal(err)
	}
}

func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func holds(ok bool, format string, args ...any) error {
	if !ok {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// refusal is the expected error of a refused request; empty fields are not compared.
type refusal struct {
	code   int32
	reason metav1.StatusReason
	text   string // part of the message
	kind   string // of the details
	cause  metav1.CauseType
	field  string // of that cause

	causeText string // part of that cause's message
}

func (r refusal) check(err error) error {
	if err == nil {
		return fmt.Errorf("the server accepted it, want code %d %s", r.code, r.reason)
	}
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		return fmt.Errorf("want code %d %s, got an error without a status: %w", r.code, r.reason, err)
	}
	status := known.Status()
	details := metav1.StatusDetails{}
	if status.Details != nil {
		details = *status.Details
	}
	causes := false
	for _, c := range details.Causes {
		causes = causes || c.Type == r.cause && strings.Contains(c.Message, r.causeText) && (r.field == "" || c.Field == r.field)
	}
	return errors.Join(
		equal("code", status.Code, r.code),
		equal("reason", status.Reason, r.reason),
		holds(strings.Contains(status.Message, r.text), "message %q does not contain %q", status.Message, r.text),
		holds(r.kind == "" || details.Kind == r.kind, "details.kind is %q, want %q", details.Kind, r.kind),
		holds(r.cause == "" || causes, "causes %v hold no %q with %q", details.Causes, r.cause, r.causeText),
	)
}

// eventually polls until check returns true. An error of check counts as false; the last one is reported.
func eventually(ctx context.Context, what string, check func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, waitStep, waitLimit, true, func(ctx context.Context) (bool, error) {
		ok, err := check(ctx)
		last = err
		return ok && err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// gone waits until an object with the UID of obj no longer exists.
func (e Env) gone(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	probe := obj.DeepCopyObject().(client.Object)
	return eventually(ctx, fmt.Sprintf("%s to be gone", obj.GetName()), func(ctx context.Context) (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(obj), probe)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && probe.GetUID() != uid, err
	})
}

// read refreshes an object.
func (e Env) read(ctx context.Context, obj client.Object) error {
	return e.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
}

// saying also expects a text in one of the causes.
func (r refusal) saying(text string) refusal {
	r.causeText = text
	return r
}
