package fake

// eventFields are the names that differ between events.k8s.io/v1 and the core v1 form, in which events are stored.
var eventFields = map[string]string{
	"note": "message", "regarding": "involvedObject", "reportingController": "reportingComponent", "deprecatedSource": "source",
	"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}

func eventToCore(content map[string]any) {
	for events, core := range eventFields {
		rename(content, events, core)
	}
}

func eventFromCore(content map[string]any) {
	for events, core := range eventFields {
		rename(content, core, events)
	}
}

func rename(m map[string]any, from, to string) {
	if v, ok := m[from]; ok {
		delete(m, from)
		m[to] = v
	}
}
