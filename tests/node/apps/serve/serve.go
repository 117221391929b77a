// Package serve is what the test apps have in common: the answers. How an app ends is what they differ in.
//
//	/              answers after WORK (default 20ms), or after ?delay=3s
//	/events?for=5s server-sent events, one each 100 ms, until the time is over or the app drains
//	/socket?for=5s a websocket that says each message back, until then
//	/ready         the readiness probe
//	/config        what the pod's configuration says: the environment variable CONFIG, and the files of two mounts
//	/answered      how many answers / has given: copies that a gateway mirrors are among them
//	/crash?for=60s the program ends at once, and again each time it is started within that time, where /state outlives it
//
// Every answer names the pod and the version in X-Pod and X-Version. With ERRORS_PERCENT so many of the answers to / are 500. With
// BURN_MILLICORES so much of a core is used beside them, whether somebody asks or not.
// Metrics of / are at /metrics on a port of their own, where Prometheus' connections are not taken for clients'.
package serve

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

const longest = time.Minute

const period = 20 * time.Millisecond // of what is burnt

const crashesUntil = "/state/crashes-until" // on a volume: a container that is started again has a new file system

// App is one server on port 8080, HTTP/1.1 and cleartext HTTP/2, and its metrics on port 9090.
type App struct {
	server   *http.Server
	metrics  metrics
	version  string
	pod      string
	work     time.Duration
	errors   float64 // per cent
	asked    atomic.Int64
	draining atomic.Bool
	open     atomic.Int64
	answered atomic.Int64
}

// New reads VERSION, POD_NAME, WORK and ERRORS_PERCENT from the environment.
func New() *App {
	if text, err := os.ReadFile(crashesUntil); err == nil {
		if until, err := time.Parse(time.RFC3339Nano, string(text)); err == nil && time.Now().Before(until) {
			os.Exit(1)
		}
	}
	app := &App{version: os.Getenv("VERSION"), pod: os.Getenv("POD_NAME"), work: duration(os.Getenv("WORK"), 20*time.Millisecond)}
	app.errors, _ = strconv.ParseFloat(os.Getenv("ERRORS_PERCENT"), 64) // 0 where there is none
	if millicores, _ := strconv.Atoi(os.Getenv("BURN_MILLICORES")); millicores > 0 {
		go burn(time.Duration(millicores) * period / 1000)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", app.ready)
	mux.HandleFunc("/answered", app.tell)
	mux.HandleFunc("/config", app.config)
	mux.HandleFunc("/crash", crash)
	mux.HandleFunc("/events", app.events)
	mux.HandleFunc("/socket", app.socket)
	mux.HandleFunc("/", app.answer)
	app.server = &http.Server{Addr: ":8080", Handler: mux, Protocols: &protocols, ConnState: app.count}
	return app
}

// Run serves until Stop, or fails.
func (app *App) Run() {
	measured := http.NewServeMux()
	measured.Handle("/metrics", &app.metrics)
	go func() {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":9090", measured))
		os.Exit(1)
	}()
	if err := app.server.ListenAndServe(); err != http.ErrServerClosed {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Drain makes the readiness probe fail and closes each connection with its next answer; new connections are still served.
func (app *App) Drain() { app.draining.Store(true) }

// Open is how many connections there are.
func (app *App) Open() int64 { return app.open.Load() }

// Stop closes the listener and the idle connections, and waits for the answers that are being given.
func (app *App) Stop(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = app.server.Shutdown(ctx)
}

func (app *App) answer(w http.ResponseWriter, r *http.Request) {
	begun, status := time.Now(), http.StatusOK
	if app.fails(app.asked.Add(1)) {
		status = http.StatusInternalServerError
	}
	time.Sleep(duration(r.URL.Query().Get("delay"), app.work))
	app.sign(w) // after the work: a drain that began meanwhile must close this connection too
	body := fmt.Sprintf("{\"pod\": %q, \"version\": %q}\n", app.pod, app.version)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
	app.answered.Add(1)
	app.metrics.add(status, time.Since(begun))
}

// fails is whether the request of this number is one of those that are answered with 500: at 5 % each twentieth.
func (app *App) fails(number int64) bool {
	share := app.errors / 100
	return math.Floor(float64(number)*share) > math.Floor(float64(number-1)*share)
}

func (app *App) tell(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintln(w, app.answered.Load())
}

// config reads the files anew for each answer: a kubelet may have written them since the last one.
func (app *App) config(w http.ResponseWriter, _ *http.Request) {
	volume, _ := os.ReadFile("/config/value")
	subPath, _ := os.ReadFile("/config-value")
	app.sign(w)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"env\": %q, \"volume\": %q, \"subPath\": %q}\n", os.Getenv("CONFIG"), volume, subPath)
}

// burn uses a processor for so long in each period.
func burn(busy time.Duration) {
	for range time.Tick(period) {
		for begun := time.Now(); time.Since(begun) < busy; {
		}
	}
}

func crash(_ http.ResponseWriter, r *http.Request) {
	until := time.Now().Add(duration(r.URL.Query().Get("for"), 0))
	_ = os.WriteFile(crashesUntil, []byte(until.Format(time.RFC3339Nano)), 0o600)
	os.Exit(1)
}

func (app *App) events(w http.ResponseWriter, r *http.Request) {
	end := time.Now().Add(duration(r.URL.Query().Get("for"), 5*time.Second))
	app.sign(w)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for number := 0; time.Now().Before(end) && !app.draining.Load(); number++ {
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", number, app.version); err != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	_, _ = fmt.Fprint(w, "event: end\ndata: \n\n")
}

func (app *App) ready(w http.ResponseWriter, _ *http.Request) {
	if app.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (app *App) sign(w http.ResponseWriter) {
	w.Header().Set("X-Pod", app.pod)
	w.Header().Set("X-Version", app.version)
	if app.draining.Load() {
		w.Header().Set("Connection", "close") // HTTP/2: the server sends GOAWAY
	}
}

func (app *App) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		app.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		app.open.Add(-1)
	}
}

func duration(text string, otherwise time.Duration) time.Duration {
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 || parsed > longest {
		return otherwise
	}
	return parsed
}
