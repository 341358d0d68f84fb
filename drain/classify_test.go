package drain

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	gone := apierrors.NewNotFound(podsResource, "p")
	notYours := errors.New("the UID in the precondition (1) does not match the UID in record (2)")
	modified := errors.New("the object has been modified")
	const multiple = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
	for name, tc := range map[string]struct {
		err   error
		still bool
		want  string
	}{
		"201 accepted":                           {nil, true, "EvictionAccepted 0s"},
		"404 pod is gone":                        {gone, false, "Gone 15s"},
		"404 but the cache still shows it":       {gone, true, "Gone 15s"},
		"404 namespace is gone":                  {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), false, "Gone 15s"},
		"404 of a server without the endpoint":   {textAnswer(404, 0), false, "EndpointMissing 1m0s"},
		"404 without a name":                     {statusOf(404, "could not find the resource"), false, "EndpointMissing 1m0s"},
		"404 of something else":                  {apierrors.NewNotFound(budgetsResource, "pdb"), false, "EndpointMissing 1m0s"},
		"405 of a server without the endpoint":   {textAnswer(405, 0), false, "EndpointMissing 1m0s"},
		"409 and the UID is gone: replaced":      {apierrors.NewConflict(podsResource, "p", notYours), false, "Gone 15s"},
		"409 and the UID is there: try again":    {apierrors.NewConflict(podsResource, "p", modified), true, "Conflict 1s"},
		"409 our evictions fought over a budget": {apierrors.NewConflict(budgetsOfServer, "pdb", modified), true, "Conflict 1s"},
		"409 over a budget says nothing of pods": {apierrors.NewConflict(budgetsOfServer, "pdb", modified), false, "Conflict 1s"},
		"403 namespace is terminating":           {namespaceTerminating(), true, "NamespaceTerminating 15s"},
		"403 too many unconfirmed evictions":     {apierrors.NewForbidden(budgetsResource, "pdb", modified), true, "BudgetExhausted 15s"},
		"403 by RBAC":                            {apierrors.NewForbidden(podsResource, "p", errors.New("no")), true, "Forbidden 15s"},
		"429 budget is exhausted":                {budget429(0, "needs 2 healthy pods"), true, "BudgetExhausted 15s"},
		"429 budget is stale":                    {budget429(10, "is still being processed"), true, "BudgetStale 10s"},
		"429 of priority and fairness":           {textAnswer(429, 3), true, "Throttled 3s"},
		"429 without a hint":                     {textAnswer(429, 0), true, "Throttled 1s"},
		"429 with a hint of an hour":             {textAnswer(429, 3600), true, "Throttled 1m0s"},
		"429 of KubeVirt, which evacuates":       {evacuates, true, "AdmissionDenied 15s"},
		"429 of KubeVirt, which is at it":        {evacuating, true, "AdmissionDenied 15s"},
		"429 of KubeVirt, which cannot":          {rooted, true, "AdmissionDenied 15s"},
		"500 of Strimzi's drain cleaner":         {rolled, true, "AdmissionDenied 15s"},
		"429 of a webhook with a hint":           {hinted(evacuates, 40), true, "AdmissionDenied 40s"},
		"429 of a webhook, a hint of an hour":    {hinted(evacuates, 3600), true, "AdmissionDenied 1m0s"},
		"401 of a webhook":                       {deniedBy("w.example.com", 401, "no"), true, "AdmissionDenied 15s"},
		"403 of a webhook":                       {deniedBy("w.example.com", 403, "no"), true, "AdmissionDenied 15s"},
		"404 of a webhook":                       {deniedBy("w.example.com", 404, "no"), true, "AdmissionDenied 15s"},
		"409 of a webhook, and the UID is gone":  {deniedBy("w.example.com", 409, "no"), false, "AdmissionDenied 15s"},
		"400 of a webhook without a reason": {statusOf(400, `admission webhook "w" denied the request without explanation`), true,
			"AdmissionDenied 15s"},
		"401 of an admission policy":             {deniedByPolicy(401, metav1.StatusReasonUnauthorized), true, "AdmissionDenied 15s"},
		"422 of an admission policy":             {deniedByPolicy(422, metav1.StatusReasonInvalid), true, "AdmissionDenied 15s"},
		"500 more than one budget":               {statusOf(500, multiple), true, "MultipleBudgets 1m0s"},
		"500 that only quotes that text":         {apierrors.NewInternalError(errors.New(multiple)), true, "ServerError 1s"},
		"500 of a webhook":                       {apierrors.NewInternalError(errors.New("failed calling webhook")), true, "ServerError 1s"},
		"504 our evictions fought over a budget": {apierrors.NewTimeoutError(`conflicts`, 10), true, "UnknownOutcome 10s"},
		"504 of a proxy":                         {textAnswer(504, 0), true, "UnknownOutcome 1s"},
		"503 with a hint":                        {textAnswer(503, 5), true, "UnknownOutcome 5s"},
		"503 with a hint of an hour":             {textAnswer(503, 3600), true, "UnknownOutcome 1m0s"},
		"502":                                    {textAnswer(502, 0), true, "UnknownOutcome 1s"},
		"connection reset":                       {fmt.Errorf("read tcp: %w", syscall.ECONNRESET), true, "UnknownOutcome 1s"},
		"deadline":                               {context.DeadlineExceeded, true, "UnknownOutcome 1s"},
		"401":                                    {apierrors.NewUnauthorized("expired"), true, "Unauthorized 15s"},
		"400":                                    {apierrors.NewBadRequest("name in URL does not match"), true, "Invalid 1m0s"},
		"422":                                    {textAnswer(422, 0), true, "Invalid 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{tc.err, wrapped(tc.err)} {
				got := Classify(err, tc.still)
				require.Equal(t, err == nil, got.Message == "")
				require.Equal(t, tc.want, fmt.Sprint(got.Reason, " ", got.RetryAfter))
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

func TestClassifyMessage(t *testing.T) {
	for _, text := range []string{
		"The disruption budget pdb needs 2 healthy pods and has 2 currently", "The disruption budget pdb is still being processed by the server.",
	} {
		want := "cannot evict pod as it would violate the pod's disruption budget. " + text
		require.Equal(t, want, Classify(budget429(0, text), true).Message, "as Cluster API has it")
		require.Equal(t, want, Classify(wrapped(budget429(10, text)), true).Message)
	}
}

func TestRest(t *testing.T) {
	for reason, want := range map[Reason][]time.Duration{ // after 1, 2 and 60 times
		ReasonBudgetExhausted:   {15 * time.Second, 15 * time.Second, 15 * time.Second},
		ReasonBudgetNeverAllows: {time.Minute, 2 * time.Minute, 5 * time.Minute},
		ReasonMultipleBudgets:   {time.Minute, 2 * time.Minute, 5 * time.Minute},
		ReasonForbidden:         {15 * time.Second, 30 * time.Second, 5 * time.Minute},
		ReasonAdmissionDenied:   {15 * time.Second, 30 * time.Second, 5 * time.Minute},
		ReasonServerError:       {time.Second, 2 * time.Second, time.Minute},
		ReasonUnknownOutcome:    {time.Second, 2 * time.Second, time.Minute},
		ReasonConflict:          {time.Second, 2 * time.Second, 2 * time.Second},
		ReasonRespawned:         {5 * time.Second, 10 * time.Second, 5 * time.Minute},
	} {
		for i, times := range []int{1, 2, 60} {
			require.Equal(t, want[i], Rest(reason, want[0], times), reason)
		}
	}
	require.Equal(t, time.Hour, Rest(ReasonServerError, time.Hour, 3), "what the API server asks for is never shortened")
}
