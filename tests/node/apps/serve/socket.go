package serve

import (
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

const closedWithin = time.Second

// socket says each message back until the time is over, or the app drains: then it closes the websocket in order, and says in the
// close frame which of the two it was (RFC 6455, 7.4.1).
func (app *App) socket(w http.ResponseWriter, r *http.Request) {
	end := time.Now().Add(duration(r.URL.Query().Get("for"), 5*time.Second))
	app.open.Add(1) // the server no longer counts a connection that has been taken over
	defer app.open.Add(-1)
	upgrader := websocket.Upgrader{}
	conn, err := upgrader.Upgrade(w, r, http.Header{"X-Pod": {app.pod}, "X-Version": {app.version}})
	if err != nil {
		return // it has answered
	}
	defer conn.Close()
	for time.Now().Before(end) && !app.draining.Load() {
		kind, message, err := conn.ReadMessage()
		if err != nil || conn.WriteMessage(kind, message) != nil {
			return
		}
	}
	code := websocket.CloseNormalClosure
	if app.draining.Load() {
		code = websocket.CloseGoingAway
	}
	deadline := time.Now().Add(closedWithin)
	if conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), deadline) != nil {
		return
	}
	_ = conn.SetReadDeadline(deadline)
	for { // what was under way, then the other side's close frame, which ends it
		if _, _, err := conn.ReadMessage(); err != nil {
			return
		}
	}
}
