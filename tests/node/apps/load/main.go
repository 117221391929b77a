// load sends requests at a constant rate whatever the answers are like (an open loop), never twice, and counts what became of
// each. It prints one line of JSON when the first request was answered, and one at the end; what happened in each second goes
// into a file as JSON lines.
//
//	load -url http://10.96.0.7/ -rate 400 -connections new -protocol http1 -seconds seconds.jsonl
//
// It ends on SIGTERM, or after -for at the latest, when all requests in flight have been answered or given up.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const mostInFlight = 4096

func main() {
	target := flag.String("url", "", "what to ask for")
	rate := flag.Float64("rate", 100, "requests per second")
	most := flag.Duration("for", 5*time.Minute, "end after this time at the latest")
	connections := flag.String("connections", "new", "new: one for each request; fresh: from a port that none before had, too; kept: a pool")
	protocol := flag.String("protocol", "http1", "http1, h2c (with kept connections) or websocket (with new ones)")
	pool := flag.Int("pool", 32, "connections of the pool")
	patience := flag.Duration("timeout", 10*time.Second, "for one request, its connection included")
	seconds := flag.String("seconds", "", "file that gets a line for each second")
	flag.Parse()
	address, err := url.Parse(*target)
	if err != nil || address.Host == "" || *rate <= 0 {
		fail("-url and a -rate above 0 are needed")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *most)
	defer cancel()
	client, err := newClient(*protocol, *connections, address, *pool, *patience)
	if err != nil {
		fail(err.Error())
	}
	tally := newTally()
	send(ctx, client, tally, time.Duration(float64(time.Second) / *rate), *patience)
	if *seconds != "" {
		if err := tally.writeSeconds(*seconds); err != nil {
			fail(err.Error())
		}
	}
	say(tally.summary())
}

// send starts a request each interval until ctx ends, then waits for those in flight.
func send(ctx context.Context, client client, tally *tally, interval, patience time.Duration) {
	var inFlight atomic.Int64
	var requests sync.WaitGroup
	var first sync.Once
	due := time.Now()
	for ctx.Err() == nil {
		time.Sleep(time.Until(due))
		scheduled := due
		due = due.Add(interval)
		if inFlight.Load() >= mostInFlight {
			tally.add(scheduled, outcome{failure: "overload", detail: "too many requests in flight"})
			continue
		}
		inFlight.Add(1)
		requests.Add(1)
		go func() {
			defer requests.Done()
			defer inFlight.Add(-1)
			result := client.ask(scheduled.Add(patience))
			tally.add(scheduled, result)
			if result.failure == "" {
				first.Do(func() { say(map[string]any{"answering": float64(time.Now().UnixMilli()) / 1000}) })
			}
		}()
	}
	requests.Wait()
}

func say(line any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		fail(err.Error())
	}
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, "load:", reason)
	os.Exit(2)
}
