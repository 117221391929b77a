// graceful does on SIGTERM what a server should: it is no longer ready, closes each connection with its next answer, finishes
// what it is answering, and ends when nobody has been connected for a second, after 25 seconds at the latest.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"rollouts.dev/tests/node/apps/serve"
)

const (
	quiet    = time.Second
	atLatest = 20 * time.Second
	patience = 5 * time.Second
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	app := serve.New()
	ended := make(chan struct{})
	go func() {
		<-told
		app.Drain()
		waitUntilQuiet(app)
		app.Stop(patience)
		close(ended)
	}()
	app.Run()
	<-ended
}

func waitUntilQuiet(app *serve.App) {
	deadline := time.Now().Add(atLatest)
	since := time.Now()
	for time.Now().Before(deadline) && time.Since(since) < quiet {
		if app.Open() > 0 {
			since = time.Now()
		}
		time.Sleep(10 * time.Millisecond)
	}
}
