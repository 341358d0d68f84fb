package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo answers each line with the same line.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		done.Wait()
	})
	return listener.Addr().String()
}

func linked(t *testing.T) *Link {
	t.Helper()
	address := echo(t)
	link, err := NewLink(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, link.Close()) })
	return link
}

func dial(t *testing.T, link *Link) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", link.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// refusedBy makes a connection that ends at once, maybe before it can be used.
func refusedBy(t *testing.T, link *Link) {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", link.Address())
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = says(conn, "hello")
	require.Error(t, err)
	var slow net.Error
	require.False(t, errors.As(err, &slow) && slow.Timeout(), "%v", err)
}

// says sends a line and returns the answer.
func says(conn net.Conn, line string) (string, error) {
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func TestALinkPassesOnWhatItGets(t *testing.T) {
	t.Parallel()
	link := linked(t)
	first, second := dial(t, link), dial(t, link)
	for _, conn := range []net.Conn{first, second, first} {
		got, err := says(conn, "hello")
		require.NoError(t, err)
		require.Equal(t, "hello\n", got)
	}
}

func TestACutLinkEndsConnectionsAndNewOnesUntilItIsRestored(t *testing.T) {
	t.Parallel()
	link := linked(t)
	conn := dial(t, link)
	_, err := says(conn, "hello")
	require.NoError(t, err)
	link.Cut()
	_, err = says(conn, "hello")
	require.Error(t, err)
	refusedBy(t, link)
	link.Restore()
	_, err = says(dial(t, link), "hello")
	require.NoError(t, err)
}

func TestADroppedLinkTakesNewConnections(t *testing.T) {
	t.Parallel()
	link := linked(t)
	conn := dial(t, link)
	_, err := says(conn, "hello")
	require.NoError(t, err)
	link.Drop()
	_, err = says(conn, "hello")
	require.Error(t, err)
	_, err = says(dial(t, link), "hello")
	require.NoError(t, err)
}

func TestAFrozenLinkCarriesNothingAndDeliversItLater(t *testing.T) {
	t.Parallel()
	link := linked(t)
	old := dial(t, link)
	_, err := says(old, "hello")
	require.NoError(t, err)
	link.Freeze()
	link.Freeze()
	young := dial(t, link)
	for _, conn := range []net.Conn{old, young} {
		_, err := fmt.Fprintln(conn, "late")
		require.NoError(t, err, "the connection is open")
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err = conn.Read(make([]byte, 1))
		var slow net.Error
		require.ErrorAs(t, err, &slow)
		require.True(t, slow.Timeout())
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	}
	link.Restore()
	link.Restore()
	for _, conn := range []net.Conn{old, young} {
		got, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "late\n", got)
	}
}

func TestAFrozenLinkCanBeClosed(t *testing.T) {
	t.Parallel()
	address := echo(t)
	link, err := NewLink(t.Context(), address)
	require.NoError(t, err)
	conn := dial(t, link)
	link.Freeze()
	_, err = fmt.Fprintln(conn, "never")
	require.NoError(t, err)
	require.NoError(t, link.Close())
	_, err = bufio.NewReader(conn).ReadString('\n')
	require.Error(t, err)
}

// nowhere is an address on which no process listens. A port that was free a moment ago may be that of another test.
const nowhere = "127.0.0.1:1"

func TestALinkToNowhereEndsConnections(t *testing.T) {
	t.Parallel()
	link, err := NewLink(t.Context(), nowhere)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, link.Close()) })
	refusedBy(t, link)
}
