package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"
)

// client sends one request and says what became of it. It never sends a request a second time.
type client interface {
	ask(deadline time.Time) outcome
}

func newClient(protocol, connections string, target *url.URL, pool int, patience time.Duration) (client, error) {
	host := target.Host
	if target.Port() == "" {
		host = net.JoinHostPort(target.Hostname(), "80")
	}
	switch {
	case protocol == "http1" && connections == "new":
		return &http1{address: host, request: head(target, "close")}, nil
	case protocol == "http1" && connections == "fresh":
		return &http1{address: host, request: head(target, "close"), ports: &ports{}}, nil
	case protocol == "http1" && connections == "kept":
		return newKept(&http1{address: host, request: head(target, "keep-alive")}, pool, patience), nil
	case protocol == "h2c" && connections == "kept":
		return newHTTP2(target, pool), nil
	case protocol == "websocket" && connections == "new":
		return newSockets(target), nil
	}
	return nil, fmt.Errorf("there is no client for %s with %s connections", protocol, connections)
}

// http1 speaks HTTP/1.1 by hand, because net/http sends a request again by itself when a kept connection breaks under it.
type http1 struct {
	address string
	request []byte
	ports   *ports // nil: the kernel chooses
}

// ports gives each connection a port that none before it had. A connection that was never answered stays in the connection tracker for
// two minutes (nf_conntrack_tcp_timeout_syn_sent), with the pod that it was sent to: who uses its port again is sent to that pod too,
// gone or not.
type ports struct {
	given atomic.Uint32
}

const firstPort, lastPort = 1024, 65535

// dial passes over ports that other clients have.
func (p *ports) dial(dialer net.Dialer, address string) (net.Conn, error) {
	for {
		port := firstPort + int(p.given.Add(1)) - 1
		if port > lastPort {
			return nil, errors.New("no port is left that was not used before: ask for less, or for a shorter time")
		}
		dialer.LocalAddr = &net.TCPAddr{Port: port}
		conn, err := dialer.Dial("tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return conn, err
		}
	}
}

type connection struct {
	net.Conn
	reader *bufio.Reader
	pod    string // whom it leads to, once it has answered
}

func head(target *url.URL, connection string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n\r\n", target.RequestURI(), target.Host, connection)
}

func (h *http1) dial(deadline time.Time) (*connection, error) {
	dialer := net.Dialer{Deadline: deadline, KeepAlive: -1}
	open := dialer.Dial
	if h.ports != nil {
		open = func(_, address string) (net.Conn, error) { return h.ports.dial(dialer, address) }
	}
	conn, err := open("tcp", h.address)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, reader: bufio.NewReader(conn)}, nil
}

// ask opens a connection for the one request.
func (h *http1) ask(deadline time.Time) outcome {
	conn, err := h.dial(deadline)
	if err != nil {
		return failed(err, "")
	}
	defer conn.Close()
	result, _ := h.exchange(conn, deadline)
	return result
}

// exchange sends the request and reads the whole answer; true when the connection may be used again.
func (h *http1) exchange(conn *connection, deadline time.Time) (outcome, bool) {
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write(h.request); err != nil {
		return failed(err, conn.pod), false
	}
	answer, err := http.ReadResponse(conn.reader, nil)
	if err != nil {
		return failed(err, conn.pod), false
	}
	result, whole := read(answer)
	conn.pod = result.pod
	return result, whole && !answer.Close
}

// read takes the whole answer in; false when it was cut.
func read(answer *http.Response) (outcome, bool) {
	defer answer.Body.Close()
	pod, version := answer.Header.Get("X-Pod"), answer.Header.Get("X-Version")
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return failed(err, pod), false
	}
	result := outcome{pod: pod, version: version}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		result.failure, result.detail = "status", answer.Status
		if pod != "" {
			result.failure = "error"
		}
	}
	return result, true
}

// kept is http1 with a pool of connections, taken in turn so that none stays idle for long. A connection that the server has
// closed while it was idle is replaced, as every pool does; one that breaks under a request is a failed request.
type kept struct {
	http1 *http1
	idle  chan *connection
}

func newKept(http1 *http1, pool int, patience time.Duration) *kept {
	client := &kept{http1: http1, idle: make(chan *connection, mostInFlight)}
	for range pool {
		if conn, err := http1.dial(time.Now().Add(patience)); err == nil {
			client.idle <- conn
		}
	}
	return client
}

func (k *kept) ask(deadline time.Time) outcome {
	conn, err := k.take(deadline)
	if err != nil {
		return failed(err, "")
	}
	result, again := k.http1.exchange(conn, deadline)
	if !again {
		conn.Close()
		return result
	}
	k.idle <- conn
	return result
}

func (k *kept) take(deadline time.Time) (*connection, error) {
	for {
		select {
		case conn := <-k.idle:
			if conn.alive() {
				return conn, nil
			}
			conn.Close()
		default:
			return k.http1.dial(deadline)
		}
	}
}

// alive is whether the server has not closed the connection: there is nothing to be read, not even its end.
func (c *connection) alive() bool {
	_ = c.SetReadDeadline(time.Now().Add(-time.Second))
	_, err := c.reader.Peek(1)
	var problem net.Error
	return errors.As(err, &problem) && problem.Timeout()
}

// http2 shares its requests out over some connections. A request that the server says it has not begun (GOAWAY) goes over a new
// connection: that is HTTP/2 (RFC 9113, 6.8), not a second try.
type http2 struct {
	target     string
	transports []*http.Transport
	next       atomic.Uint64
}

func newHTTP2(target *url.URL, pool int) *http2 {
	client := &http2{target: target.String()}
	for range pool {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		client.transports = append(client.transports, &http.Transport{Protocols: &protocols})
	}
	return client
}

func (h *http2) ask(deadline time.Time) outcome {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.target, nil)
	if err != nil {
		return failed(err, "")
	}
	answer, err := h.transports[h.next.Add(1)%uint64(len(h.transports))].RoundTrip(request)
	if err != nil {
		return failed(err, "")
	}
	result, _ := read(answer)
	return result
}
