package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies all of it.
func (h *Hardware) DeepCopyInto(out *Hardware) {
	*out = *h
	if h.Patience != nil {
		out.Patience = &metav1.Duration{Duration: h.Patience.Duration}
	}
}

// DeepCopyInto copies all of it.
func (r *Report) DeepCopyInto(out *Report) {
	*out = *r
	if r.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(r.Conditions))
		for i := range r.Conditions {
			r.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

// DeepCopyInto copies all of it.
func (s *EdgeServer) DeepCopyInto(out *EdgeServer) {
	*out = *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s.Spec.DeepCopyInto(&out.Spec)
	s.Status.DeepCopyInto(&out.Status)
}

// DeepCopyInto copies all of it.
func (g *EdgeGateway) DeepCopyInto(out *EdgeGateway) {
	*out = *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	g.Spec.DeepCopyInto(&out.Spec)
	g.Status.DeepCopyInto(&out.Status)
}

// DeepCopyObject implements runtime.Object.
func (s *EdgeServer) DeepCopyObject() runtime.Object {
	out := &EdgeServer{}
	s.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (g *EdgeGateway) DeepCopyObject() runtime.Object {
	out := &EdgeGateway{}
	g.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *EdgeServerList) DeepCopyObject() runtime.Object {
	out := &EdgeServerList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]EdgeServer, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *EdgeGatewayList) DeepCopyObject() runtime.Object {
	out := &EdgeGatewayList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]EdgeGateway, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
