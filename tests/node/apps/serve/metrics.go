package serve

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

var bounds = [...]float64{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5} // seconds, as most client libraries have them

// metrics are the answers to / by status code, and how long they took. Both codes are there from the start, as a series that
// begins with its first error hides that one from rate().
type metrics struct {
	lock    sync.Mutex
	codes   [2]int64 // 200, 500
	buckets [len(bounds)]int64
	seconds float64
}

func (m *metrics) add(status int, took time.Duration) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if status == http.StatusOK {
		m.codes[0]++
	} else {
		m.codes[1]++
	}
	m.seconds += took.Seconds()
	for number, bound := range bounds {
		if took.Seconds() <= bound {
			m.buckets[number]++
		}
	}
}

// ServeHTTP writes them in Prometheus' text format.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.lock.Lock()
	defer m.lock.Unlock()
	const requests, duration = "http_requests_total", "http_request_duration_seconds"
	all := m.codes[0] + m.codes[1]
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE %s counter\n%s{code=\"200\"} %d\n%s{code=\"500\"} %d\n", requests, requests, m.codes[0], requests, m.codes[1])
	fmt.Fprintf(w, "# TYPE %s histogram\n", duration)
	for number, bound := range bounds {
		fmt.Fprintf(w, "%s_bucket{le=\"%g\"} %d\n", duration, bound, m.buckets[number])
	}
	fmt.Fprintf(w, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %g\n%s_count %d\n", duration, all, duration, m.seconds, duration, all)
}
