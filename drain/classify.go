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

// Class is the meaning of an answer to an eviction.
type Class uint8

// The zero value is UnknownOutcome: it is not known whether the Pod was evicted. Asking again is safe, because the request contains the
// Pod's UID.
const (
	UnknownOutcome Class = iota
	// Accepted: the Pod is terminating or gone.
	Accepted
	// Gone: the Pod or its Namespace does not exist, or another Pod has its name. The Pod still counts while the cache of the caller shows
	// it.
	Gone
	// BudgetExhausted: a budget allows no eviction now. Wait until the budget changes, or for RetryAfter.
	BudgetExhausted
	// BudgetStale: the controller has not processed the newest spec of the budget, or the Pod changed.
	BudgetStale
	// BudgetOverloaded: too many evictions of the budget are unconfirmed. All its Pods rest.
	BudgetOverloaded
	// BudgetContention: parallel evictions, most likely those of the caller, conflicted in the status of the budget. Send fewer at a time.
	BudgetContention
	// MultipleBudgets: more than one budget selects the Pod, until a person changes that.
	MultipleBudgets
	// NamespaceTerminating: no object can be created in the Namespace, evictions included. The Namespace controller deletes the Pod.
	NamespaceTerminating
	// Forbidden: RBAC or an admission plugin of the API server refused the request.
	Forbidden
	// Throttled: the API server is overloaded. Delay all requests; the answer does not concern the Pod.
	Throttled
	// Conflict: the Pod changed during its eviction.
	Conflict
	// ServerError: a webhook or the API server failed.
	ServerError
	// EndpointMissing: the API server has no pods/eviction. It does not mean that the Pod is gone.
	EndpointMissing
	// Unauthorized: the credentials were refused. Stop all requests.
	Unauthorized
	// Invalid: the request is wrong; asking again does not help.
	Invalid
	// AdmissionDenied: a webhook or an admission policy denied the request for this Pod, with any status code. It may still act on the
	// request: KubeVirt migrates the virtual machine, Strimzi's drain cleaner restarts the Pod.
	AdmissionDenied
)

// classes says for each Class its name, the reason of the hold on the Pod, and how long the Pod rests. Hinted classes rest as long as the
// API server asks for, if it does.
func classes() []classFacts {
	return []classFacts{
		UnknownOutcome:       {"UnknownOutcome", ReasonUnknownOutcome, time.Second, true},
		Accepted:             {"Accepted", ReasonEvictionAccepted, 0, false},
		Gone:                 {"Gone", ReasonEvictionAccepted, 15 * time.Second, false},
		BudgetExhausted:      {"BudgetExhausted", ReasonBudgetExhausted, 15 * time.Second, false}, // the event of the budget comes first
		BudgetStale:          {"BudgetStale", ReasonBudgetStale, 10 * time.Second, true},
		BudgetOverloaded:     {"BudgetOverloaded", ReasonBudgetExhausted, 30 * time.Second, false},
		BudgetContention:     {"BudgetContention", ReasonBudgetExhausted, time.Second, true},
		MultipleBudgets:      {"MultipleBudgets", ReasonMultipleBudgets, time.Minute, false},
		NamespaceTerminating: {"NamespaceTerminating", ReasonNamespaceTerminating, 30 * time.Second, false},
		Forbidden:            {"Forbidden", ReasonForbidden, 15 * time.Second, false},
		Throttled:            {"Throttled", ReasonThrottled, time.Second, true},
		Conflict:             {"Conflict", ReasonConflict, time.Second, false},
		ServerError:          {"ServerError", ReasonServerError, time.Second, true},
		EndpointMissing:      {"EndpointMissing", ReasonEndpointMissing, time.Minute, false},
		Unauthorized:         {"Unauthorized", ReasonUnauthorized, 15 * time.Second, false},
		Invalid:              {"Invalid", ReasonInvalid, time.Minute, false},
		AdmissionDenied:      {"AdmissionDenied", ReasonAdmissionDenied, 15 * time.Second, true},
	}
}

// classFacts is one row of classes.
type classFacts struct {
	name   string
	hold   Reason
	rest   time.Duration
	hinted bool
}

// String returns the class's name, for example "BudgetExhausted".
func (c Class) String() string {
	if int(c) < len(classes()) {
		return classes()[c].name
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Outcome is the meaning of an answer.
type Outcome struct {
	Class Class
	// RetryAfter is when to ask again at the earliest, without jitter and before any back-off of the caller: the hint of the API server if
	// it gave one, at most a minute, otherwise that of the class. It is 0 for Accepted, and for Gone when the Pod no longer exists.
	RetryAfter time.Duration
	// Cause is the sentence of the API server about the budget, empty when it gave none.
	Cause string
	// Message is the answer in one line for people, empty for Accepted. It omits what differs between two attempts
	// ([contract.SteadyText]).
	Message string
}

const (
	// longestHint limits the hints of webhooks and proxies; those of the API server are at most 32 s.
	longestHint = time.Minute
	// restTimeout is how long a Pod rests when the API server timed out over the status of its budget.
	restTimeout = 10 * time.Second
)

// multipleBudgetsText identifies the only answer that is recognized by its text: status 500 without a reason (k/k #75957).
const multipleBudgetsText = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

// contentionText begins the message of the 504 that the API server intends for conflicting budget updates. API servers answer with the last
// conflict instead; see classOfConflict.
const contentionText = "couldn't update PodDisruptionBudget"

// Classify recognizes every answer of the eviction endpoint (drain-noderef 3.2); nil means accepted. stillThere says whether the cache of
// the caller shows the Pod under the UID of the request. Errors may be wrapped. Errors without an API status, such as a broken connection
// or a deadline, are UnknownOutcome.
func Classify(err error, stillThere bool) Outcome {
	if err == nil {
		return Outcome{Class: Accepted}
	}
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		return Outcome{Class: UnknownOutcome, RetryAfter: classes()[UnknownOutcome].rest, Message: contract.SteadyText(err.Error())}
	}
	st := api.Status()
	o := Outcome{Class: classOf(&st, stillThere)}
	o.RetryAfter = classes()[o.Class].rest
	switch o.Class {
	case Gone:
		if !stillThere {
			o.RetryAfter = 0
		}
	case BudgetContention:
		if st.Code == http.StatusGatewayTimeout {
			o.RetryAfter = restTimeout
		}
	case BudgetExhausted, BudgetStale:
		o.Cause = cause(&st, policyv1.DisruptionBudgetCause).Message
	default:
	}
	if classes()[o.Class].hinted && st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		o.RetryAfter = min(longestHint, time.Duration(st.Details.RetryAfterSeconds)*time.Second)
	}
	o.Message = message(&st, &o)
	return o
}

func classOf(st *metav1.Status, stillThere bool) Class {
	if deniedByAdmission(st.Message) {
		return AdmissionDenied
	}
	switch st.Code {
	case http.StatusNotFound:
		return classOfNotFound(st)
	case http.StatusConflict:
		return classOfConflict(st, stillThere)
	case http.StatusForbidden:
		return classOfForbidden(st)
	case http.StatusTooManyRequests:
		return classOfTooMany(st)
	case http.StatusInternalServerError:
		if st.Reason == "" && st.Message == multipleBudgetsText {
			return MultipleBudgets
		}
		return ServerError
	case http.StatusGatewayTimeout:
		if st.Reason == metav1.StatusReasonTimeout && strings.Contains(st.Message, contentionText) {
			return BudgetContention
		}
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Invalid
	case http.StatusMethodNotAllowed:
		return EndpointMissing
	}
	return UnknownOutcome
}

// deniedByAdmission recognizes the refusal of a webhook or a ValidatingAdmissionPolicy. They choose the status code: KubeVirt 429, Strimzi
// 500, a policy perhaps 401. Only the words that the API server puts before theirs distinguish such an answer from its own.
func deniedByAdmission(message string) bool {
	return strings.Contains(message, "admission webhook \"") && strings.Contains(message, "\" denied the request") ||
		strings.Contains(message, "ValidatingAdmissionPolicy '") && strings.Contains(message, "' denied request: ")
}

func classOfNotFound(st *metav1.Status) Class {
	if st.Details == nil || st.Details.Name == "" || st.Details.Kind != "pods" && st.Details.Kind != "namespaces" ||
		cause(st, metav1.CauseTypeUnexpectedServerResponse) != nil {
		return EndpointMissing
	}
	return Gone
}

// classOfConflict distinguishes a conflict about the Pod from one about its budget. The API server answers with the latter after it has
// tried for ten seconds to count the eviction in the status of the budget.
func classOfConflict(st *metav1.Status, stillThere bool) Class {
	switch {
	case ofBudget(st):
		return BudgetContention
	case !stillThere:
		return Gone
	default:
		return Conflict
	}
}

// ofBudget reports whether an answer is about a PodDisruptionBudget and not about the Pod.
func ofBudget(st *metav1.Status) bool {
	return st.Details != nil && st.Details.Group == policyv1.GroupName && strings.HasPrefix(st.Details.Kind, "poddisruptionbudget")
}

func classOfForbidden(st *metav1.Status) Class {
	switch {
	case cause(st, "NamespaceTerminating") != nil:
		return NamespaceTerminating
	case ofBudget(st):
		return BudgetOverloaded
	default:
		return Forbidden
	}
}

func classOfTooMany(st *metav1.Status) Class {
	switch {
	case cause(st, policyv1.DisruptionBudgetCause) == nil:
		return Throttled
	case st.Details.RetryAfterSeconds > 0:
		return BudgetStale
	default:
		return BudgetExhausted
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

// HoldFor returns the hold that an outcome puts on its Pod until the runner may ask again.
func HoldFor(o Outcome) Hold {
	return Hold{Reason: classes()[min(int(o.Class), len(classes())-1)].hold, Message: o.Message}
}

// Rest returns how long a Pod rests that is held for the same reason so many times in a row: first, which is Outcome.RetryAfter after an
// answer, doubled each time up to the limit of the reason, which is never below first. It is the schedule of what is requested again.
func Rest(reason Reason, first time.Duration, times int) time.Duration {
	longest := first
	switch reason {
	case ReasonBudgetNeverAllows, ReasonMultipleBudgets, ReasonForbidden, ReasonAdmissionDenied, ReasonEndpointMissing, ReasonInvalid,
		ReasonRespawned:
		longest = 5 * time.Minute
	case ReasonServerError:
		longest = time.Minute
	case ReasonUnknownOutcome:
		longest = 30 * time.Second
	case ReasonConflict:
		longest = 2 * time.Second
	default: // the event of a budget, or of a Namespace, comes before
	}
	return max(first, min(first<<min(max(0, times-1), 10), longest))
}
