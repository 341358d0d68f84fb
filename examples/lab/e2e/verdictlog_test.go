package e2e_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/machineset/scale"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// Users of the logs.
const byManager, byProvider, byOther = "manager", "provider", "kwok"

// terms are those of a deployment of two Machines.
func terms() Terms {
	return Terms{
		Managers: []string{byManager}, Provider: byProvider, Deployment: "fleet", Desired: 2, Surge: 1, Unavailable: 0,
		Apps: map[string]int{"app": 1},
	}
}

// log is an audit log that a test writes, a second for each line.
type log struct {
	events  cluster.AuditEvents
	version int
}

// second is the time of a line.
func second(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC) }

// now is the time of the last line.
func (l *log) now() time.Time { return second(len(l.events)) }

func group(resource string) string {
	return map[string]string{"machines": "cluster.x-k8s.io", "kwokmachines": "infrastructure.cluster.x-k8s.io"}[resource]
}

// write adds a line. The answer is nil where a request was refused.
func (l *log) write(user, verb, resource, subresource, name string, answer any) *cluster.AuditEvent {
	l.version++
	e := cluster.AuditEvent{
		Received: l.now().Add(time.Second), User: user, Verb: verb, Group: group(resource), Resource: resource, Subresource: subresource,
		Name: name, Code: 200,
	}
	if answer != nil {
		e.Answer, _ = json.Marshal(answer)
	}
	l.events = append(l.events, e)
	return &l.events[len(l.events)-1]
}

type conditions struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type object struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     map[string]any    `json:"spec"`
	Status   conditions        `json:"status"`
}

func (l *log) object(name, id string) *object {
	return &object{Metadata: metav1.ObjectMeta{Name: name, UID: types.UID(id)}, Spec: map[string]any{}}
}

// put writes an object with the version that it has then.
func (l *log) put(user, verb, resource, subresource string, o object) {
	o.Metadata.ResourceVersion = fmt.Sprint(l.version + 1)
	l.write(user, verb, resource, subresource, o.Metadata.Name, o)
}

// gone is the answer to a deletion of an object that was removed at once.
func gone(id string) any {
	return map[string]any{"kind": "Status", "status": "Success", "details": map[string]any{"uid": id}}
}

func aMachine(l *log, n int) *object {
	m := l.object(fmt.Sprintf("fleet-%d", n), fmt.Sprintf("machine-%d", n))
	m.Metadata.Annotations = scale.Stamp{Set: "set", Slot: int64(n)}.Annotations()
	m.Metadata.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "fleet-s", UID: "set", Controller: new(true)}}
	m.Metadata.Finalizers = []string{"machine"}
	return m
}

func anInfra(l *log, n int) *object {
	i := l.object(fmt.Sprintf("fleet-%d", n), fmt.Sprintf("infra-%d", n))
	i.Metadata.OwnerReferences = []metav1.OwnerReference{
		{Kind: "Machine", Name: fmt.Sprintf("fleet-%d", n), UID: types.UID(fmt.Sprintf("machine-%d", n)), Controller: new(true)},
	}
	i.Metadata.Finalizers = []string{"provider"}
	return i
}

func aNode(l *log, n int) *object {
	o := l.object(fmt.Sprintf("fleet-node-%d", n), fmt.Sprintf("node-%d", n))
	o.Metadata.Annotations = map[string]string{kwokdriver.TokenAnnotation: fmt.Sprintf("infra-%d", n)}
	return o
}

func aPod(l *log, n int) *object {
	p := l.object(fmt.Sprintf("pod-%d", n), fmt.Sprintf("pod-uid-%d", n))
	p.Metadata.Labels = map[string]string{"app": "app"}
	return p
}

func with(o *object, condition string) *object {
	o.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}}
	return o
}

// leaves marks an object as being deleted.
func leaves(o *object) *object {
	o.Metadata.DeletionTimestamp = &metav1.Time{Time: second(0)}
	return o
}

// creates makes a Machine with its instance, all the way to Available.
func (l *log) creates(n int) {
	l.put(byManager, "create", "machines", "", *aMachine(l, n))
	l.put(byManager, "create", "kwokmachines", "", *anInfra(l, n))
	l.put(byProvider, "create", "nodes", "", *aNode(l, n))
	l.put(byManager, "patch", "machines", "status", *with(aMachine(l, n), "Available"))
}

// runs has a pod run on the Node of a Machine.
func (l *log) runs(p, n int) {
	l.put(byOther, "create", "pods", "", *aPod(l, p))
	e := l.write(byOther, "create", "pods", "binding", fmt.Sprintf("pod-%d", p), gone(""))
	e.Sent = fmt.Appendf(nil, `{"target":{"name":"fleet-node-%d"}}`, n)
	ready := with(aPod(l, p), "Ready")
	ready.Spec["nodeName"] = fmt.Sprintf("fleet-node-%d", n)
	l.put(byOther, "patch", "pods", "status", *ready)
}

// deletes begins the deletion of a Machine.
func (l *log) deletes(n int) {
	l.put(byManager, "delete", "machines", "", *leaves(with(aMachine(l, n), "Available")))
}

func (l *log) evicts(p int) {
	l.write(byManager, "create", "pods", "eviction", fmt.Sprintf("pod-%d", p), gone(""))
}

// ends removes a pod.
func (l *log) ends(p int) {
	o := leaves(aPod(l, p))
	o.Metadata.DeletionGracePeriodSeconds = new(int64(0))
	l.put(byOther, "delete", "pods", "", *o)
}

// releases deletes the infrastructure of a Machine, terminates the instance and lets the infrastructure object go.
func (l *log) releases(n int) {
	l.put(byManager, "delete", "kwokmachines", "", *leaves(anInfra(l, n)))
	l.terminates(n)
	o := leaves(anInfra(l, n))
	o.Metadata.Finalizers = nil
	l.put(byProvider, "patch", "kwokmachines", "", *o)
}

func (l *log) terminates(n int) {
	l.write(byProvider, "delete", "nodes", "", fmt.Sprintf("fleet-node-%d", n), gone(fmt.Sprintf("node-%d", n)))
}

// removes lets a Machine go.
func (l *log) removes(n int) {
	o := leaves(aMachine(l, n))
	o.Metadata.Finalizers = nil
	l.put(byManager, "patch", "machines", "", *o)
}

// rolled is the log of a deployment that replaces its first Machine as it should.
func rolled() *log {
	l := &log{}
	l.creates(1)
	l.creates(2)
	l.runs(1, 1)
	l.runs(2, 2)
	l.creates(3)
	l.deletes(1)
	l.evicts(1)
	l.runs(3, 3)
	l.ends(1)
	l.releases(1)
	l.removes(1)
	l.creates(4)
	return l
}
