package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	podsResource    = schema.GroupResource{Resource: "pods"}
	budgetsOfServer = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"} // as its own client names them
	budgetsResource = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudget"}
)

// budget429 is the answer of the eviction endpoint's checkAndDecrement.
func budget429(retryAfter int, text string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: text})
	return err
}

func namespaceTerminating() error {
	err := apierrors.NewForbidden(podsResource, "p", errors.New("unable to create new content in namespace n because it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Message: "namespace n is being terminated"}}
	return err
}

func textAnswer(code, retryAfter int) error {
	return apierrors.NewGenericServerResponse(code, "POST", podsResource, "p", "text of the server", retryAfter, true)
}

func statusOf(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

// deniedBy is what the API server makes of a webhook's refusal: the webhook's own status with the message wrapped
// (k8s.io/apiserver v0.36, pkg/admission/plugin/webhook/errors/statuserror.go). It adds no reason and no details.
func deniedBy(webhook string, code int32, message string) error {
	return statusOf(code, fmt.Sprintf("admission webhook %q denied the request: %s", webhook, message))
}

// The eviction webhooks of two projects, word for word. KubeVirt: pod-eviction-admitter.go on main; an answer that names the
// VMI comes each time, or, from older versions, the first time. Strimzi Drain Cleaner: ValidatingWebhook.java on main.
var (
	evacuates  = deniedBy("virt-launcher-eviction-interceptor.kubevirt.io", 429, `Eviction triggered evacuation of VMI "default/vm-cirros"`)
	evacuating = deniedBy("virt-launcher-eviction-interceptor.kubevirt.io", 429,
		`Evacuation in progress: Eviction triggered evacuation of VMI "default/vm-cirros"`)
	rooted = deniedBy("virt-launcher-eviction-interceptor.kubevirt.io", 429,
		"VMI vm-cirros is configured with an eviction strategy but is not live-migratable")
	rolled = deniedBy("strimzi-drain-cleaner.strimzi.io", 500, "The pod will be rolled by the Strimzi Cluster Operator")
)

// hinted adds a hint to an answer.
func hinted(err error, seconds int32) error {
	status := err.(apierrors.APIStatus).Status()
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
	return &apierrors.StatusError{ErrStatus: status}
}

// deniedByPolicy is a refusal by a ValidatingAdmissionPolicy (k8s.io/apiserver v0.36, pkg/admission/plugin/policy/validating).
func deniedByPolicy(code int32, reason metav1.StatusReason) error {
	err := apierrors.NewForbidden(podsResource, "p",
		errors.New("ValidatingAdmissionPolicy 'freeze' with binding 'all' denied request: frozen"))
	err.ErrStatus.Code, err.ErrStatus.Reason = code, reason
	return err
}

func TestClassify(t *testing.T) {
	needs := "The disruption budget pdb needs 2 healthy pods and has 2 currently"
	processing := "The disruption budget pdb is still being processed by the server."
	notYours := "the UID in the precondition (1) does not match the UID in record (2)"
	multiple := "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
	type answer struct {
		err   error
		still bool
		want  Reason
		after time.Duration
		cause string
	}
	cases := map[string]answer{
		"201 accepted":                     {nil, true, ReasonEvictionAccepted, 0, ""},
		"404 pod is gone":                  {apierrors.NewNotFound(podsResource, "p"), false, ReasonGone, 15 * time.Second, ""},
		"404 but the cache still shows it": {apierrors.NewNotFound(podsResource, "p"), true, ReasonGone, 15 * time.Second, ""},
		"404 namespace is gone": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), false, ReasonGone,
			15 * time.Second, ""},
		"404 of a server without the endpoint": {textAnswer(404, 0), false, ReasonEndpointMissing, time.Minute, ""},
		"404 without a name": {statusOf(404, "the server could not find the requested resource"), false, ReasonEndpointMissing,
			time.Minute, ""},
		"404 of something else":                {apierrors.NewNotFound(budgetsResource, "pdb"), false, ReasonEndpointMissing, time.Minute, ""},
		"405 of a server without the endpoint": {textAnswer(405, 0), false, ReasonEndpointMissing, time.Minute, ""},
		"409 and the UID is gone: replaced": {apierrors.NewConflict(podsResource, "p", errors.New(notYours)), false, ReasonGone,
			15 * time.Second, ""},
		"409 and the UID is there: try again": {apierrors.NewConflict(podsResource, "p", errors.New("modified")), true, ReasonConflict,
			time.Second, ""},
		"409 our evictions fought over a budget": {apierrors.NewConflict(budgetsOfServer, "pdb", errors.New("the object has been modified")),
			true, ReasonConflict, time.Second, ""},
		"409 over a budget says nothing of pods": {apierrors.NewConflict(budgetsOfServer, "pdb", errors.New("the object has been modified")),
			false, ReasonConflict, time.Second, ""},
		"403 namespace is terminating": {namespaceTerminating(), true, ReasonNamespaceTerminating, 30 * time.Second, ""},
		"403 too many unconfirmed evictions": {apierrors.NewForbidden(budgetsResource, "pdb", errors.New("DisruptedPods map too big")), true,
			ReasonBudgetExhausted, 15 * time.Second, ""},
		"403 by RBAC": {apierrors.NewForbidden(podsResource, "p", errors.New("no")), true, ReasonForbidden, 15 * time.Second,
			""},
		"429 budget is exhausted":               {budget429(0, needs), true, ReasonBudgetExhausted, 15 * time.Second, needs},
		"429 budget is stale":                   {budget429(10, processing), true, ReasonBudgetStale, 10 * time.Second, processing},
		"429 of priority and fairness":          {textAnswer(429, 3), true, ReasonThrottled, 3 * time.Second, ""},
		"429 without a hint":                    {textAnswer(429, 0), true, ReasonThrottled, time.Second, ""},
		"429 with a hint of an hour":            {textAnswer(429, 3600), true, ReasonThrottled, time.Minute, ""},
		"429 of KubeVirt, which evacuates":      {evacuates, true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"429 of KubeVirt, which is at it":       {evacuating, true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"429 of KubeVirt, which cannot":         {rooted, true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"500 of Strimzi's drain cleaner":        {rolled, true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"429 of a webhook with a hint":          {hinted(evacuates, 40), true, ReasonAdmissionDenied, 40 * time.Second, ""},
		"429 of a webhook, a hint of an hour":   {hinted(evacuates, 3600), true, ReasonAdmissionDenied, time.Minute, ""},
		"401 of a webhook":                      {deniedBy("w.example.com", 401, "no"), true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"403 of a webhook":                      {deniedBy("w.example.com", 403, "no"), true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"404 of a webhook":                      {deniedBy("w.example.com", 404, "no"), true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"409 of a webhook, and the UID is gone": {deniedBy("w.example.com", 409, "no"), false, ReasonAdmissionDenied, 15 * time.Second, ""},
		"400 of a webhook that gives no reason": {statusOf(400, `admission webhook "w" denied the request without explanation`), true,
			ReasonAdmissionDenied, 15 * time.Second, ""},
		"401 of an admission policy": {deniedByPolicy(401, metav1.StatusReasonUnauthorized), true, ReasonAdmissionDenied, 15 * time.Second,
			""},
		"422 of an admission policy":     {deniedByPolicy(422, metav1.StatusReasonInvalid), true, ReasonAdmissionDenied, 15 * time.Second, ""},
		"500 more than one budget":       {statusOf(500, multiple), true, ReasonMultipleBudgets, time.Minute, ""},
		"500 that only quotes that text": {apierrors.NewInternalError(errors.New(multiple)), true, ReasonServerError, time.Second, ""},
		"500 of a webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), true, ReasonServerError,
			time.Second, ""},
		"504 our evictions fought over a budget": {apierrors.NewTimeoutError(`couldn't update PodDisruptionBudget "pdb" due to conflicts`, 10),
			true, ReasonUnknownOutcome, 10 * time.Second, ""},
		"504 of a proxy":             {textAnswer(504, 0), true, ReasonUnknownOutcome, time.Second, ""},
		"503 with a hint":            {textAnswer(503, 5), true, ReasonUnknownOutcome, 5 * time.Second, ""},
		"503 with a hint of an hour": {textAnswer(503, 3600), true, ReasonUnknownOutcome, time.Minute, ""},
		"502":                        {textAnswer(502, 0), true, ReasonUnknownOutcome, time.Second, ""},
		"connection reset":           {fmt.Errorf("read tcp: %w", syscall.ECONNRESET), true, ReasonUnknownOutcome, time.Second, ""},
		"deadline":                   {context.DeadlineExceeded, true, ReasonUnknownOutcome, time.Second, ""},
		"401":                        {apierrors.NewUnauthorized("expired"), true, ReasonUnauthorized, 15 * time.Second, ""},
		"400":                        {apierrors.NewBadRequest("name in URL does not match"), true, ReasonInvalid, time.Minute, ""},
		"422":                        {textAnswer(http.StatusUnprocessableEntity, 0), true, ReasonInvalid, time.Minute, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := Outcome{Reason: tc.want, RetryAfter: tc.after}
			for _, err := range []error{tc.err, wrapped(tc.err)} {
				got := Classify(err, tc.still)
				if (got.Message == "") != (err == nil) {
					t.Errorf("want a message exactly for errors, got %q", got.Message)
				}
				if !strings.HasSuffix(got.Message, tc.cause) {
					t.Errorf("want the sentence about the budget, got %q", got.Message)
				}
				got.Message = ""
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("evict pod n/p: %w", err)
}

func TestClassify_TheMessageOfABudgetIsClusterAPIs(t *testing.T) {
	got := Classify(budget429(0, "The disruption budget pdb needs 2 healthy pods and has 2 currently"), true).Message
	want := "cannot evict pod as it would violate the pod's disruption budget. " +
		"The disruption budget pdb needs 2 healthy pods and has 2 currently"
	if got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestNames_EveryValueHasOneOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for a := Undecided; a <= Deny+1; a++ {
		seen[a.String()] = true
	}
	if want := int(Deny) + 2; len(seen) != want {
		t.Errorf("want %d names, got %v", want, seen)
	}
}
