package runner_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain/runner"
)

// simRequest is an eviction on its way.
type simRequest struct {
	proc   *simProcess
	pod    types.NamespacedName
	uid    types.UID // of the precondition
	answer chan simAnswer

	asked *simAsked // what the checks remember
	ended bool      // answered or given up; the test's goroutine owns it
}

func compareRequests(a, b *simRequest) int {
	return cmp.Or(cmp.Compare(a.proc.id, b.proc.id), compareNames(a.pod, b.pod), cmp.Compare(a.uid, b.uid))
}

type simKind string

const (
	answerAccepted  simKind = "accepted"
	answerGone      simKind = "gone"
	answerExhausted simKind = "exhausted"
	answerStale     simKind = "stale"
	answerBudget    simKind = "budget contended" // rests the pod, says nothing about the count
	answerGlobal    simKind = "stop everything"
	answerUnknown   simKind = "unknown"
	answerDouble    simKind = "two budgets"
	answerOther     simKind = "refused"
)

// simAnswer is an answer and what it obliges the Runner to.
type simAnswer struct {
	kind simKind
	rest time.Duration // before the same pod may be asked for again
	wait time.Duration // before anything may be asked for again
	err  error         // as the API server would return it; nil for success
	text bool          // not a Status but plain text, as filters before the API answer
	lost bool          // the connection breaks instead
}

// RoundTrip hands a request to the test's goroutine and waits for the answer or the end of its context. It is the only way
// from the Runner's evictor to the cluster.
func (p *simProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	q, err := p.parse(req)
	if err != nil {
		p.s.mu.Lock()
		p.s.broken = append(p.s.broken, "unexpected call: "+err.Error())
		p.s.mu.Unlock()
		return nil, err
	}
	p.s.mu.Lock()
	p.s.arrivals = append(p.s.arrivals, q)
	p.s.mu.Unlock()
	p.s.notify()
	select {
	case a := <-q.answer:
		if a.lost {
			return nil, errors.New("read: connection reset by peer")
		}
		return a.response(), nil
	case <-req.Context().Done():
		p.s.mu.Lock()
		p.s.abandoned = append(p.s.abandoned, q)
		p.s.mu.Unlock()
		p.s.notify()
		return nil, req.Context().Err()
	case <-p.s.quit:
		return nil, errors.New("the simulation is over")
	}
}

func (p *simProcess) parse(req *http.Request) (*simRequest, error) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/") // api v1 namespaces NS pods NAME eviction
	if req.Method != http.MethodPost || len(parts) != 7 || parts[4] != "pods" || parts[6] != "eviction" {
		return nil, fmt.Errorf("%s %s", req.Method, req.URL.Path)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var e policyv1.Eviction
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, err
	}
	q := &simRequest{proc: p, pod: types.NamespacedName{Namespace: parts[3], Name: parts[5]}, answer: make(chan simAnswer, 1)}
	if e.DeleteOptions != nil && e.DeleteOptions.Preconditions != nil && e.DeleteOptions.Preconditions.UID != nil {
		q.uid = *e.DeleteOptions.Preconditions.UID
	}
	return q, nil
}

// arrived checks a request and decides when the API server gets to it.
func (s *sim) arrived(q *simRequest) {
	s.count["requests"]++
	s.checkRequest(q)
	if s.trouble.has(troubleCrash) && !s.calm && s.chance(40) {
		s.after(s.upTo(s.setup.latency), s.crash) // while others still queue
	}
	s.after(s.upTo(s.setup.latency), func() { s.serve(q) })
}

// serve lets trouble answer, or the eviction endpoint.
func (s *sim) serve(q *simRequest) {
	if q.ended && s.chance(2) {
		return // the connection broke before the server read it
	}
	a, hit := s.faultBefore(q)
	if !hit {
		a = s.evict(q)
		a = s.faultAfter(q, a)
	}
	if a.kind == answerUnknown && !a.lost && a.err == nil {
		return // hangs until the caller gives up
	}
	s.after(s.upTo(s.setup.latency), func() { s.reply(q, a) })
}

func (s *sim) reply(q *simRequest, a simAnswer) {
	if q.ended {
		return
	}
	s.answered(q, a)
	q.answer <- a
}

func (a simAnswer) response() *http.Response {
	status := metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
	if known := apierrors.APIStatus(nil); errors.As(a.err, &known) {
		status = known.Status()
	}
	code := int(status.Code)
	if code == http.StatusInternalServerError && status.Reason == "" {
		code = http.StatusCreated // two budgets: the server's oddest answer
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	kind, body := "application/json", []byte(status.Message)
	if a.text {
		kind = "text/plain; charset=utf-8"
	} else {
		body, _ = json.Marshal(status)
	}
	resp := &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return resp
}

var (
	podResource    = schema.GroupResource{Resource: "pods"}
	budgetResource = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudget"} // singular, as the server says it
)

// evict is the endpoint as in pkg/registry/core/pod/storage/eviction.go of Kubernetes 1.36, its admission included. As there,
// the budget pays before the UID is compared.
func (s *sim) evict(q *simRequest) simAnswer {
	switch s.spaces[q.pod.Namespace] {
	case spaceGone:
		return simAnswer{kind: answerGone, err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, q.pod.Namespace)}
	case spaceTerminating:
		return refuse(15*time.Second, terminatingSpace(q.pod))
	case spaceActive:
	}
	p := s.pods[q.pod]
	if p == nil {
		return simAnswer{kind: answerGone, err: apierrors.NewNotFound(podResource, q.pod.Name)}
	}
	if p.app.guarded && p.obj.UID == q.uid && !outside(p.obj) {
		return s.migrate(q, p)
	}
	if !outside(p.obj) {
		if a, refused := s.pay(q, p); refused {
			return a
		}
	}
	if q.uid != "" && p.obj.UID != q.uid {
		err := fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", q.uid, p.obj.UID)
		return simAnswer{kind: answerGone, err: apierrors.NewConflict(podResource, q.pod.Name, err)}
	}
	s.checkEviction(q, p)
	s.note("evicted %s %s", q.pod, p.obj.UID)
	s.deletePod(p, true)
	return simAnswer{kind: answerAccepted}
}

// migrate is what KubeVirt's webhook does: it denies the eviction and has the virtual machine moved, which ends the pod.
func (s *sim) migrate(q *simRequest, p *simPod) simAnswer {
	text := fmt.Sprintf("Eviction triggered evacuation of VMI %q", q.pod)
	if p.leaving {
		text = "Evacuation in progress: " + text
	} else {
		p.leaving = true
		s.count["migrated"]++
		s.after(s.upTo(time.Minute), func() {
			if s.pods[q.pod] == p {
				s.deletePod(p, false)
			}
		})
	}
	return refuse(15*time.Second, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests,
		Message: `admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: ` + text,
	}})
}

func outside(pod *corev1.Pod) bool {
	return finishedPod(pod) || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil
}

// pay takes the disruption from the pod's budget, if it has one and needs it.
func (s *sim) pay(q *simRequest, p *simPod) (simAnswer, bool) {
	budgets := s.budgetsOf(p.obj)
	switch len(budgets) {
	case 0:
		return simAnswer{}, false
	case 1:
	default:
		return simAnswer{kind: answerDouble, rest: time.Minute, err: &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}}, true
	}
	b := budgets[0]
	st := &b.obj.Status
	if !readyPod(p.obj) && unreadyAllowed(b.obj) {
		return simAnswer{}, false
	}
	switch {
	case st.ObservedGeneration < b.obj.Generation:
		return simAnswer{
			kind: answerStale, rest: 10 * time.Second,
			err: violated(10, "The disruption budget %s is still being processed by the server.", b.obj.Name),
		}, true
	case st.DisruptionsAllowed == 0:
		return simAnswer{kind: answerExhausted, rest: runner.ProbeInterval, err: violated(0,
			"The disruption budget %s needs %d healthy pods and has %d currently", b.obj.Name, st.DesiredHealthy, st.CurrentHealthy)}, true
	}
	s.writeBudget(b, false, func(obj *policyv1.PodDisruptionBudget) {
		obj.Status.DisruptionsAllowed--
		if obj.Status.DisruptedPods == nil {
			obj.Status.DisruptedPods = map[string]metav1.Time{}
		}
		obj.Status.DisruptedPods[q.pod.Name] = metav1.Time{Time: time.Now()}
	})
	s.planCount(b)
	return simAnswer{}, false
}

func unreadyAllowed(pdb *policyv1.PodDisruptionBudget) bool {
	if policy := pdb.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy && pdb.Status.DesiredHealthy > 0
}

func refuse(rest time.Duration, err error) simAnswer {
	return simAnswer{kind: answerOther, rest: rest, err: err}
}

func violated(seconds int, format string, args ...any) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...)}}
	return err
}

func terminatingSpace(pod types.NamespacedName) error {
	err := apierrors.NewForbidden(podResource, pod.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", pod.Namespace))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
	return err
}
