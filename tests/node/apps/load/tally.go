package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

const mostFailuresTold = 50 // of each kind

// outcome is what became of one request. `failure` is "" for an answer of 2xx that came whole, else refused, reset, timeout,
// unreachable, cut (the connection ended before the answer did), error (not 2xx, and the app says so: its answer came), status (not
// 2xx from somebody else), overload (not sent) or other.
type outcome struct {
	failure string
	detail  string
	pod     string
	version string
}

func failed(err error, pod string) outcome {
	return outcome{failure: kind(err), detail: err.Error(), pod: pod}
}

func kind(err error) string {
	var problem net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &problem) && problem.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), websocket.IsCloseError(err, websocket.CloseAbnormalClosure):
		return "cut"
	}
	return "other"
}

type second struct {
	At       int64          `json:"at"` // seconds since 1970
	Sent     int            `json:"sent"`
	Failed   map[string]int `json:"failed"`
	Versions map[string]int `json:"versions"`
	Slowest  float64        `json:"slowest_ms"`
}

type failure struct {
	At     float64 `json:"at"` // when it was due, seconds since 1970
	Kind   string  `json:"kind"`
	Detail string  `json:"detail"`
	Pod    string  `json:"pod"`
	After  float64 `json:"after_ms"`
}

// tally counts outcomes under the second in which the request was due. Times are measured from there, so that a client that
// falls behind shows it.
type tally struct {
	lock     sync.Mutex
	seconds  map[int64]*second
	pods     map[string]int
	failed   map[string]int
	failures []failure
	times    []float64
	sent     int
}

func newTally() *tally {
	return &tally{seconds: map[int64]*second{}, pods: map[string]int{}, failed: map[string]int{}}
}

func (t *tally) add(due time.Time, result outcome) {
	took := float64(time.Since(due).Microseconds()) / 1000
	t.lock.Lock()
	defer t.lock.Unlock()
	at := t.seconds[due.Unix()]
	if at == nil {
		at = &second{At: due.Unix(), Failed: map[string]int{}, Versions: map[string]int{}}
		t.seconds[at.At] = at
	}
	t.sent++
	at.Sent++
	at.Slowest = max(at.Slowest, took)
	if result.failure != "" {
		at.Failed[result.failure]++
		t.failed[result.failure]++
		if t.failed[result.failure] <= mostFailuresTold {
			when := float64(due.UnixMilli()) / 1000
			t.failures = append(t.failures, failure{when, result.failure, result.detail, result.pod, took})
		}
		return
	}
	at.Versions[result.version]++
	t.pods[result.pod]++
	t.times = append(t.times, took)
}

func (t *tally) writeSeconds(path string) error {
	t.lock.Lock()
	defer t.lock.Unlock()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for _, at := range sorted(t.seconds) {
		if err := lines.Encode(t.seconds[at]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) summary() map[string]any {
	t.lock.Lock()
	defer t.lock.Unlock()
	slices.Sort(t.times)
	quantiles := map[string]float64{}
	for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1} {
		if len(t.times) > 0 {
			quantiles[name] = t.times[int(share*float64(len(t.times)-1))]
		}
	}
	return map[string]any{
		"sent": t.sent, "failed": t.failed, "pods": t.pods, "latency_ms": quantiles, "failures": t.failures,
	}
}

func sorted(seconds map[int64]*second) []int64 {
	keys := make([]int64, 0, len(seconds))
	for at := range seconds {
		keys = append(keys, at)
	}
	slices.Sort(keys)
	return keys
}
