package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

const (
	evictionLine = `{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods/b/eviction","verb":"create",` +
		`"user":{"username":"admin"},"userAgent":"mine/1","objectRef":{"resource":"pods","namespace":"a","name":"b",` +
		`"apiVersion":"v1","subresource":"eviction"},"responseStatus":{"code":201},` +
		`"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z"}` + "\n"
	dryRunLine = `{"requestURI":"/apis/g/v1/things/c?dryRun=All","verb":"delete","userAgent":"mine/1",` +
		`"objectRef":{"apiGroup":"g","apiVersion":"v1","resource":"things","name":"c"},"responseStatus":{"code":200}}` + "\n"
	reviewLine = `{"requestURI":"/apis/authorization.k8s.io/v1/subjectaccessreviews","verb":"create","userAgent":"yours",` +
		`"objectRef":{"apiGroup":"authorization.k8s.io","resource":"subjectaccessreviews"},"responseStatus":{"code":201}}` + "\n"
	pathLine = `{"requestURI":"/version?timeout=1s","verb":"get","userAgent":"yours","responseStatus":{"code":200}}` + "\n"
)

func writeAudit(t *testing.T, content string) *Audit {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return &Audit{path: path}
}

func TestAnEventSaysWhoAskedWhatOfWhichObject(t *testing.T) {
	events, err := writeAudit(t, evictionLine).Events()
	require.NoError(t, err)
	want := AuditEvents{{
		Received:  time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		UserAgent: "mine/1", User: "admin", Verb: "create", Version: "v1", Resource: "pods", Subresource: "eviction",
		Namespace: "a", Name: "b", URI: "/api/v1/namespaces/a/pods/b/eviction", Code: 201,
	}}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestOnlyRequestsThatChangeStoredObjectsAreWrites(t *testing.T) {
	events, err := writeAudit(t, evictionLine+dryRunLine+reviewLine+pathLine).Events()
	require.NoError(t, err)
	require.Len(t, events, 4)
	require.Equal(t, events[:1], events.Writes())
	require.Equal(t, events[1:2], events.To("g", "things"))
	require.Equal(t, events[2:], events.From("yours"))
}

func TestAMarkDividesTheLogAndALineThatIsBeingWrittenIsLeftForLater(t *testing.T) {
	audit := writeAudit(t, evictionLine+pathLine[:20])
	mark, err := audit.Mark()
	require.NoError(t, err)
	events, err := audit.Since(mark)
	require.NoError(t, err)
	require.Empty(t, events)

	require.NoError(t, os.WriteFile(audit.path, []byte(evictionLine+pathLine), 0o600))
	events, err = audit.Since(mark)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, "get /version?timeout=1s 200", events[0].String())
}

func TestALogThatCannotBeReadIsAnError(t *testing.T) {
	_, err := writeAudit(t, "{\n").Events()
	require.ErrorContains(t, err, "no audit event")
	_, err = (&Audit{off: true}).Events()
	require.ErrorIs(t, err, ErrNoAudit)
	_, err = (&Audit{path: filepath.Join(t.TempDir(), "gone")}).Mark()
	require.ErrorIs(t, err, ErrStopped)
}

func TestASummaryIsBounded(t *testing.T) {
	events := AuditEvents{}
	for i := range 100 {
		events = append(events, AuditEvent{Verb: "get", Resource: "things", Code: 200 + i})
	}
	require.Equal(t, summaryLines, countLines(events.String())-1)
	require.Contains(t, events.String(), "and 61 kinds more")
}

func countLines(text string) int {
	lines := 1
	for _, r := range text {
		if r == '\n' {
			lines++
		}
	}
	return lines
}
