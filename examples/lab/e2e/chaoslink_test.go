package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Link listens on a port of 127.0.0.1 and passes what it gets on to another address, so that a test can disturb the connections of one
// program to one server. Its methods are safe for concurrent use. Close ends it.
type Link struct {
	to       string
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	open  chan struct{} // closed while bytes may pass
	cut   bool
	ended bool
	conns map[net.Conn]bool
}

// NewLink returns a Link to an address, such as 127.0.0.1:6443, that works at once.
func NewLink(ctx context.Context, to string) (*Link, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for connections to %s: %w", to, err)
	}
	l := &Link{to: to, listener: listener, open: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(l.open)
	l.done.Go(l.accept)
	return l, nil
}

// Address is where the Link listens, as host:port.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Cut ends all connections, and new ones as soon as they are made, until Restore.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.reset()
}

// Drop ends all connections once.
func (l *Link) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reset()
}

// Freeze keeps all connections open, and carries nothing until Restore. What was sent meanwhile arrives then, also when its sender has
// given up.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.frozen() {
		l.open = make(chan struct{})
	}
}

// Restore ends what Cut and Freeze have begun.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	l.thaw()
}

// Close ends all connections, and returns when nothing of the Link is left.
func (l *Link) Close() error {
	l.mu.Lock()
	l.ended = true
	err := l.listener.Close()
	l.reset()
	l.thaw()
	l.mu.Unlock()
	l.done.Wait()
	return err
}

// frozen, thaw and reset are called with the lock.
func (l *Link) frozen() bool {
	select {
	case <-l.open:
		return false
	default:
		return true
	}
}

func (l *Link) thaw() {
	if l.frozen() {
		close(l.open)
	}
}

func (l *Link) reset() {
	for conn := range l.conns {
		abort(conn)
	}
}

// abort ends a connection as a computer does that knows nothing of it.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && l.keep(conn) {
			l.done.Go(func() { l.serve(conn) })
		}
	}
}

// keep has a connection end with the others; it reports whether there may be new ones.
func (l *Link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.ended {
		abort(conn)
		return false
	}
	l.conns[conn] = true
	return true
}

func (l *Link) forget(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	_ = conn.Close()
}

// pass waits until bytes may pass.
func (l *Link) pass() {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	<-open
}

func (l *Link) serve(from net.Conn) {
	defer l.forget(from)
	l.pass()
	to, err := (&net.Dialer{}).Dial("tcp", l.to)
	if err != nil {
		abort(from)
		return
	}
	if !l.keep(to) {
		abort(from)
		return
	}
	defer l.forget(to)
	back := make(chan struct{})
	go func() {
		defer close(back)
		l.carry(from, to)
	}()
	l.carry(to, from)
	<-back
}

// carry sends to one side what the other one says, and ends with it.
func (l *Link) carry(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.pass()
		if n > 0 {
			if _, wrong := to.Write(buffer[:n]); wrong != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}
