package drain

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/machinist-dev/machinist/contract"
)

// Outcome is the meaning of a response to an eviction request.
type Outcome struct {
	// Reason is ReasonEvictionAccepted, ReasonGone, or why the Pod is not evicted.
	Reason Reason
	// RetryAfter is the minimum time until the next request, without jitter and before any back-off of the caller: the hint of the API server
	// if there is one, at most a minute, otherwise that of the reason.
	RetryAfter time.Duration
	// Message is the response in one line for people, empty when accepted. It omits the parts that differ between two attempts
	// ([contract.SteadyText]).
	Message string
}

// schedule returns, for each reason, the first and the longest pause before the next request for a Pod. The pause is doubled while the
// reason stays the same. Other reasons end with an event; their pause is at most a quarter of a minute.
func schedule(r Reason) (first, longest time.Duration) {
	switch r {
	case ReasonConflict:
		return time.Second, 2 * time.Second
	case ReasonUnknownOutcome, ReasonServerError, ReasonThrottled:
		return time.Second, time.Minute
	case ReasonRespawned:
		return 5 * time.Second, 5 * time.Minute
	case ReasonForbidden, ReasonAdmissionDenied, ReasonNamespaceTerminating:
		return 15 * time.Second, 5 * time.Minute
	case ReasonBudgetNeverAllows, ReasonMultipleBudgets, ReasonEndpointMissing, ReasonInvalid:
		return time.Minute, 5 * time.Minute
	default:
		return 15 * time.Second, 15 * time.Second
	}
}

// longestHint limits the hints of webhooks and proxies; the API server's own hints are at most 32 s.
const longestHint = time.Minute

// multipleBudgetsText identifies the only response that is recognized by its text: status 500 without a reason (k/k #75957).
const multipleBudgetsText = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

// Classify recognizes every response of the eviction endpoint (drain-noderef 3.2); nil means accepted. stillThere is whether the cache of
// the caller has the Pod with the UID of the request. Errors may be wrapped. Errors without an API status, such as a broken connection or a
// deadline, are ReasonUnknownOutcome.
func Classify(err error, stillThere bool) Outcome {
	if err == nil {
		return Outcome{Reason: ReasonEvictionAccepted}
	}
	o := Outcome{Reason: ReasonUnknownOutcome, Message: contract.SteadyText(err.Error())}
	var api apierrors.APIStatus
	var hint int32
	if errors.As(err, &api) {
		st := api.Status()
		o.Reason = reasonOf(err, &st, stillThere)
		o.Message = message(err, &st, o.Reason)
		hint = ptr.Deref(st.Details, metav1.StatusDetails{}).RetryAfterSeconds
	}
	o.RetryAfter, _ = schedule(o.Reason)
	if hint > 0 {
		o.RetryAfter = min(longestHint, time.Duration(hint)*time.Second)
	}
	return o
}

func reasonOf(err error, st *metav1.Status, stillThere bool) Reason {
	if deniedByAdmission(st.Message) {
		return ReasonAdmissionDenied
	}
	switch st.Code {
	case http.StatusNotFound:
		return reasonOfNotFound(err, st)
	case http.StatusConflict:
		if !stillThere && !ofBudget(st) {
			return ReasonGone
		}
		return ReasonConflict // of the Pod, or of concurrent updates of one budget's status
	case http.StatusForbidden:
		return reasonOfForbidden(err, st)
	case http.StatusTooManyRequests:
		return reasonOfTooMany(err, st)
	case http.StatusInternalServerError:
		if st.Reason == "" && st.Message == multipleBudgetsText {
			return ReasonMultipleBudgets
		}
		return ReasonServerError
	case http.StatusUnauthorized:
		return ReasonUnauthorized
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return ReasonInvalid
	case http.StatusMethodNotAllowed:
		return ReasonEndpointMissing
	}
	return ReasonUnknownOutcome
}

// deniedByAdmission recognizes a denial by a webhook or a ValidatingAdmissionPolicy. They choose the status code: KubeVirt 429, Strimzi
// 500, a policy perhaps 401. Only the prefix that the API server adds distinguishes such a response from its own.
func deniedByAdmission(message string) bool {
	return strings.Contains(message, "admission webhook \"") && strings.Contains(message, "\" denied the request") ||
		strings.Contains(message, "ValidatingAdmissionPolicy '") && strings.Contains(message, "' denied request: ")
}

func reasonOfNotFound(err error, st *metav1.Status) Reason {
	if st.Details == nil || st.Details.Name == "" || st.Details.Kind != "pods" && st.Details.Kind != "namespaces" ||
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return ReasonEndpointMissing
	}
	return ReasonGone
}

// ofBudget reports whether a response is about a PodDisruptionBudget and not about the Pod.
func ofBudget(st *metav1.Status) bool {
	return st.Details != nil && st.Details.Group == policyv1.GroupName && strings.HasPrefix(st.Details.Kind, "poddisruptionbudget")
}

func reasonOfForbidden(err error, st *metav1.Status) Reason {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ReasonNamespaceTerminating
	case ofBudget(st): // too many of the budget's evictions are not confirmed yet
		return ReasonBudgetExhausted
	default:
		return ReasonForbidden
	}
}

func reasonOfTooMany(err error, st *metav1.Status) Reason {
	switch {
	case !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return ReasonThrottled
	case st.Details.RetryAfterSeconds > 0:
		return ReasonBudgetStale
	default:
		return ReasonBudgetExhausted
	}
}

func message(err error, st *metav1.Status, r Reason) string {
	of, found := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if found && (r == ReasonBudgetExhausted || r == ReasonBudgetStale) {
		return strings.TrimSpace(violation + " " + of.Message)
	}
	if r == ReasonNamespaceTerminating {
		return "cannot evict pod from terminating namespace: unable to create eviction " +
			"(kube-controller-manager should set deletionTimestamp)"
	}
	return cmp.Or(contract.SteadyText(st.Message), fmt.Sprintf("the server answered %d %s", st.Code, st.Reason))
}

// Rest returns the pause before the next request for a Pod after the given number of consecutive holds for the same reason: first, which is
// Outcome.RetryAfter after a response and otherwise 0, doubled each time up to the limit of the reason, which is never below first.
func Rest(reason Reason, first time.Duration, times int) time.Duration {
	shortest, longest := schedule(reason)
	first = cmp.Or(first, shortest)
	return max(first, min(first<<min(max(0, times-1), 10), longest))
}
