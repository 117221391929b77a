package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
)

const heartbeat = 100 * time.Millisecond

// sockets opens a websocket for each request, sends a message each 100 ms and reads what is said back, until the server closes it
// in order: that is a whole answer.
type sockets struct {
	target string
}

func newSockets(target *url.URL) *sockets {
	of := *target
	of.Scheme = "ws"
	return &sockets{target: of.String()}
}

func (s *sockets) ask(deadline time.Time) outcome {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	dialer := websocket.Dialer{}
	conn, answer, err := dialer.DialContext(ctx, s.target, nil)
	if errors.Is(err, websocket.ErrBadHandshake) {
		return outcome{failure: "status", detail: answer.Status, pod: answer.Header.Get("X-Pod")}
	}
	if err != nil {
		return failed(err, "")
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(deadline)
	_ = conn.SetWriteDeadline(deadline)
	if err := echo(conn); err != nil {
		return failed(err, answer.Header.Get("X-Pod"))
	}
	return signed(answer.Header)
}

// echo returns nil when the server has closed the websocket because it was over or because it goes away.
func echo(conn *websocket.Conn) error {
	for {
		// The server may have closed: then the next read says how.
		sent := conn.WriteMessage(websocket.TextMessage, []byte("heartbeat"))
		_, _, err := conn.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
			return nil
		}
		if err == nil {
			err = sent
		}
		if err != nil {
			return err
		}
		time.Sleep(heartbeat)
	}
}

func signed(header http.Header) outcome {
	return outcome{pod: header.Get("X-Pod"), version: header.Get("X-Version")}
}
