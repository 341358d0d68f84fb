package drain

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Class is what an answer to an eviction means.
type Class uint8

// The zero value is UnknownOutcome: nobody knows whether the eviction happened. Asking again is safe, because the
// request names the pod's UID.
const (
	UnknownOutcome Class = iota
	// Accepted: the pod is terminating or gone.
	Accepted
	// Gone: the pod, its namespace, or this incarnation of the pod is gone. When the caller's cache still shows the
	// pod, the cache has to confirm; the pod still counts until then.
	Gone
	// BudgetExhausted: a budget allows no eviction now. Rest until the budget changes, or RetryAfter.
	BudgetExhausted
	// BudgetStale: the server has not looked at the budget's newest spec, or the pod changed meanwhile.
	BudgetStale
	// BudgetOverloaded: too many evictions of the budget are unconfirmed. Rest all its pods.
	BudgetOverloaded
	// BudgetContention: parallel evictions, most likely our own, fought over the budget's status. Send fewer at once.
	BudgetContention
	// MultipleBudgets: more than one budget selects the pod; stays so until somebody changes that.
	MultipleBudgets
	// NamespaceTerminating: nothing may be created there, evictions included; the namespace controller deletes the pod.
	NamespaceTerminating
	// Forbidden: RBAC or an admission plugin of the server refused.
	Forbidden
	// Throttled: the server sheds load. Everybody slows down; the pod has nothing to do with it.
	Throttled
	// Conflict: the pod changed while it was evicted.
	Conflict
	// ServerError: a webhook or the server failed.
	ServerError
	// EndpointMissing: the server has no pods/eviction. Not to be taken for Gone.
	EndpointMissing
	// Unauthorized: the credentials were refused. Stop everything.
	Unauthorized
	// Invalid: the request is wrong; asking again cannot help.
	Invalid
	// AdmissionDenied: a webhook or an admission policy denied the request for this one pod, whatever status code it chose. It may
	// act on the request all the same: KubeVirt migrates the virtual machine, Strimzi's drain cleaner lets the pod be rolled.
	AdmissionDenied
)

var classNames = [...]string{
	"UnknownOutcome", "Accepted", "Gone", "BudgetExhausted", "BudgetStale", "BudgetOverloaded", "BudgetContention",
	"MultipleBudgets", "NamespaceTerminating", "Forbidden", "Throttled", "Conflict", "ServerError", "EndpointMissing",
	"Unauthorized", "Invalid", "AdmissionDenied",
}

// String returns the class's name, for example "BudgetExhausted".
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Outcome is what to make of an answer.
type Outcome struct {
	Class Class
	// RetryAfter is when to ask again at the earliest, without jitter and before any back-off of the caller: the server's
	// hint where it gave one, at most a minute, else the class's own. It is 0 for Accepted, and for Gone when the pod is no longer there.
	RetryAfter time.Duration
	// Cause is the server's sentence about the budget, empty when it gave none.
	Cause string
	// Message is the answer in one line for people, empty for Accepted. It is without what differs between two attempts
	// ([contract.SteadyText]).
	Message string
}

// How long to rest where the server gives no hint.
const (
	restBudget     = 15 * time.Second // liveness probe; the budget's own event comes first
	restStale      = 10 * time.Second
	restOverloaded = 30 * time.Second
	restMultiple   = 60 * time.Second
	restNamespace  = 30 * time.Second
	restForbidden  = 15 * time.Second
	restDenied     = 15 * time.Second
	restShort      = time.Second
	restConfig     = 60 * time.Second

	longestHint = time.Minute // the server's own are at most 32 s; webhooks and proxies send what they like
)

// multipleBudgetsText is the one answer that only its text tells apart: status 500 without a reason (k/k #75957).
const multipleBudgetsText = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

// contentionText begins the message of the 504 that conflicting budget updates were meant to end in. API servers answer with
// the last conflict instead, see classifyConflict.
const contentionText = "couldn't update PodDisruptionBudget"

// Classify recognises every answer of the eviction endpoint (drain-noderef 3.2); nil means accepted. stillThere says
// whether the caller's cache shows the pod under the UID it asked for. Errors may be wrapped. Errors without an API
// status, such as a broken connection or a deadline, are UnknownOutcome.
func Classify(err error, stillThere bool) Outcome {
	if err == nil {
		return Outcome{Class: Accepted}
	}
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		return Outcome{Class: UnknownOutcome, RetryAfter: restShort, Message: contract.SteadyText(err.Error())}
	}
	status := api.Status()
	o := Outcome{Class: AdmissionDenied, RetryAfter: hint(&status, restDenied)}
	if !deniedByAdmission(status.Message) {
		o = classifyStatus(&status, stillThere)
	}
	o.Message = message(&status, &o)
	return o
}

func classifyStatus(st *metav1.Status, stillThere bool) Outcome {
	switch st.Code {
	case http.StatusNotFound:
		return classifyNotFound(st, stillThere)
	case http.StatusConflict:
		return classifyConflict(st, stillThere)
	case http.StatusForbidden:
		return classifyForbidden(st)
	case http.StatusTooManyRequests:
		return classifyTooMany(st)
	case http.StatusInternalServerError:
		if st.Reason == "" && st.Message == multipleBudgetsText {
			return Outcome{Class: MultipleBudgets, RetryAfter: restMultiple}
		}
		return Outcome{Class: ServerError, RetryAfter: hint(st, restShort)}
	case http.StatusGatewayTimeout:
		if st.Reason == metav1.StatusReasonTimeout && strings.Contains(st.Message, contentionText) {
			return Outcome{Class: BudgetContention, RetryAfter: hint(st, restStale)}
		}
	case http.StatusUnauthorized:
		return Outcome{Class: Unauthorized, RetryAfter: restForbidden}
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Outcome{Class: Invalid, RetryAfter: restConfig}
	case http.StatusMethodNotAllowed:
		return Outcome{Class: EndpointMissing, RetryAfter: restConfig}
	}
	return Outcome{Class: UnknownOutcome, RetryAfter: hint(st, restShort)}
}

// deniedByAdmission recognises the refusal of a webhook or of a ValidatingAdmissionPolicy. They choose the status code: KubeVirt 429,
// Strimzi 500, a policy perhaps 401. Only the words that the API server puts before theirs tell such an answer from its own.
func deniedByAdmission(message string) bool {
	return strings.Contains(message, "admission webhook \"") && strings.Contains(message, "\" denied the request") ||
		strings.Contains(message, "ValidatingAdmissionPolicy '") && strings.Contains(message, "' denied request: ")
}

func classifyNotFound(st *metav1.Status, stillThere bool) Outcome {
	switch {
	case st.Details == nil || st.Details.Name == "" || cause(st, metav1.CauseTypeUnexpectedServerResponse) != nil:
		return Outcome{Class: EndpointMissing, RetryAfter: restConfig}
	case st.Details.Kind != "pods" && st.Details.Kind != "namespaces":
		return Outcome{Class: EndpointMissing, RetryAfter: restConfig}
	case stillThere:
		return Outcome{Class: Gone, RetryAfter: restBudget}
	default:
		return Outcome{Class: Gone}
	}
}

// classifyConflict tells a conflict over the pod from one over its budget, with which the API server answers when it has tried for ten
// seconds to count the eviction in the budget's status.
func classifyConflict(st *metav1.Status, stillThere bool) Outcome {
	switch {
	case ofBudget(st):
		return Outcome{Class: BudgetContention, RetryAfter: restShort}
	case !stillThere:
		return Outcome{Class: Gone}
	default:
		return Outcome{Class: Conflict, RetryAfter: restShort}
	}
}

// ofBudget says whether an answer is about a PodDisruptionBudget and not about the pod.
func ofBudget(st *metav1.Status) bool {
	return st.Details != nil && st.Details.Group == policyv1.GroupName && strings.HasPrefix(st.Details.Kind, "poddisruptionbudget")
}

func classifyForbidden(st *metav1.Status) Outcome {
	switch {
	case cause(st, "NamespaceTerminating") != nil:
		return Outcome{Class: NamespaceTerminating, RetryAfter: restNamespace}
	case ofBudget(st):
		return Outcome{Class: BudgetOverloaded, RetryAfter: restOverloaded}
	default:
		return Outcome{Class: Forbidden, RetryAfter: restForbidden}
	}
}

func classifyTooMany(st *metav1.Status) Outcome {
	c := cause(st, policyv1.DisruptionBudgetCause)
	switch {
	case c == nil:
		return Outcome{Class: Throttled, RetryAfter: hint(st, restShort)}
	case st.Details.RetryAfterSeconds > 0:
		return Outcome{Class: BudgetStale, RetryAfter: hint(st, restStale), Cause: c.Message}
	default:
		return Outcome{Class: BudgetExhausted, RetryAfter: restBudget, Cause: c.Message}
	}
}

func cause(st *metav1.Status, kind metav1.CauseType) *metav1.StatusCause {
	if st.Details == nil {
		return nil
	}
	for i := range st.Details.Causes {
		if st.Details.Causes[i].Type == kind {
			return &st.Details.Causes[i]
		}
	}
	return nil
}

func hint(st *metav1.Status, otherwise time.Duration) time.Duration {
	if st.Details == nil || st.Details.RetryAfterSeconds <= 0 {
		return otherwise
	}
	return min(longestHint, time.Duration(st.Details.RetryAfterSeconds)*time.Second)
}

func message(st *metav1.Status, o *Outcome) string {
	switch o.Class {
	case BudgetExhausted, BudgetStale:
		return strings.TrimSpace(violation + " " + o.Cause)
	case NamespaceTerminating:
		return "cannot evict pod from terminating namespace: unable to create eviction " +
			"(kube-controller-manager should set deletionTimestamp)"
	default:
		return cmp.Or(contract.SteadyText(st.Message), fmt.Sprintf("the server answered %d %s", st.Code, st.Reason))
	}
}

// HoldFor returns the hold that an outcome puts on its pod until the runner may ask again.
func HoldFor(o Outcome) Hold {
	h := Hold{Message: o.Message}
	switch o.Class {
	case Accepted, Gone:
		h.Reason = ReasonEvictionAccepted
	case BudgetExhausted, BudgetOverloaded, BudgetContention:
		h.Reason = ReasonBudgetExhausted
	case BudgetStale:
		h.Reason = ReasonBudgetStale
	case MultipleBudgets:
		h.Reason = ReasonMultipleBudgets
	case NamespaceTerminating:
		h.Reason = ReasonNamespaceTerminating
	case Forbidden:
		h.Reason = ReasonForbidden
	case Throttled:
		h.Reason = ReasonThrottled
	case Conflict:
		h.Reason = ReasonConflict
	case ServerError:
		h.Reason = ReasonServerError
	case EndpointMissing:
		h.Reason = ReasonEndpointMissing
	case Unauthorized:
		h.Reason = ReasonUnauthorized
	case Invalid:
		h.Reason = ReasonInvalid
	case AdmissionDenied:
		h.Reason = ReasonAdmissionDenied
	default:
		h.Reason = ReasonUnknownOutcome
	}
	return h
}
