// SPDX-License-Identifier: Apache-2.0

// Command watchload holds many watches and checks that each gets every event, once, in order: the objects
// carry a sequence number in the annotation "n". Commands come line by line on standard input, each is
// answered by one line of JSON:
//
//	open N     opens N more watches; answers when all have their head
//	wait SEQ   waits until each has seen the event SEQ, or one has ended
//	stats      what was seen so far
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	opening  = 32              // watches being opened at once
	patience = 5 * time.Minute // of one command
	// A source address has so many ports; further connections come from the next one.
	perAddress = 20000
	told       = 10 // of each kind of trouble; the rest is counted
)

// watch is one of them, as seen by its reader.
type watch struct {
	last int64 // sequence number of the last event
}

type load struct {
	url    string
	config *tls.Config
	http2  bool
	shared *http.Transport

	mu      sync.Mutex
	watches []*watch
	dialled int64

	events, lost, repeated, ended, failed, errors int64
}

func (l *load) transport() *http.Transport {
	t := &http.Transport{TLSClientConfig: l.config, ForceAttemptHTTP2: l.http2, DisableCompression: true}
	if !l.http2 {
		t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		t.ReadBufferSize, t.WriteBufferSize = 2048, 1024
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		from := net.IPv4(127, 0, 1, byte(1+atomic.AddInt64(&l.dialled, 1)/perAddress))
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
		return d.DialContext(ctx, network, address)
	}
	return t
}

func (l *load) open() error {
	t := l.shared
	if t == nil {
		t = l.transport()
	}
	answer, err := (&http.Client{Transport: t}).Get(l.url)
	if err != nil {
		return err
	}
	if want := map[bool]int{true: 2, false: 1}[l.http2]; answer.StatusCode != 200 || answer.ProtoMajor != want {
		answer.Body.Close()
		return fmt.Errorf("%s %s", answer.Proto, answer.Status)
	}
	w := &watch{}
	l.mu.Lock()
	l.watches = append(l.watches, w)
	l.mu.Unlock()
	go l.read(w, answer.Body)
	return nil
}

func sequence(line []byte) (int64, bool) {
	const before = `"n":"`
	at := bytes.Index(line, []byte(before))
	if at < 0 {
		return 0, false
	}
	line = line[at+len(before):]
	end := bytes.IndexByte(line, '"')
	if end < 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(line[:end]), 10, 64)
	return n, err == nil
}

// read follows one watch. The first event may have any number, each further one must be the next.
func (l *load) read(w *watch, body io.ReadCloser) {
	defer body.Close()
	r := bufio.NewReaderSize(body, 2048)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if atomic.AddInt64(&l.ended, 1) <= told {
				fmt.Fprintf(os.Stderr, "a watch that had seen %d ended: %v\n", atomic.LoadInt64(&w.last), err)
			}
			return
		}
		n, ok := sequence(line)
		if !ok {
			if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) && atomic.AddInt64(&l.errors, 1) <= told {
				fmt.Fprintf(os.Stderr, "a watch got %s", line)
			}
			continue
		}
		last := atomic.LoadInt64(&w.last)
		switch {
		case last != 0 && n <= last:
			atomic.AddInt64(&l.repeated, 1)
		case last != 0 && n > last+1:
			atomic.AddInt64(&l.lost, n-last-1)
		}
		atomic.StoreInt64(&w.last, n)
		atomic.AddInt64(&l.events, 1)
	}
}

func (l *load) openMany(n int) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, opening)
	for i := 0; i < n; i++ {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			if err := l.open(); err != nil {
				atomic.AddInt64(&l.failed, 1)
				fmt.Fprintln(os.Stderr, "open:", err)
			}
		}()
	}
	wg.Wait()
}

func (l *load) behind(seq int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, w := range l.watches {
		if atomic.LoadInt64(&w.last) < seq {
			n++
		}
	}
	return n
}

func (l *load) wait(seq int64) {
	for end := time.Now().Add(patience); l.behind(seq) > 0 && atomic.LoadInt64(&l.ended) == 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *load) report(seq int64) {
	l.mu.Lock()
	n := len(l.watches)
	l.mu.Unlock()
	json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"watches": int64(n), "behind": int64(l.behind(seq)), "events": atomic.LoadInt64(&l.events),
		"lost": atomic.LoadInt64(&l.lost), "repeated": atomic.LoadInt64(&l.repeated),
		"ended": atomic.LoadInt64(&l.ended), "failed": atomic.LoadInt64(&l.failed),
		"connections": atomic.LoadInt64(&l.dialled)})
}

func (l *load) command(line string) {
	verb, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, _ := strconv.ParseInt(argument, 10, 64)
	switch verb {
	case "open":
		l.openMany(int(n))
		l.report(0)
	case "wait":
		l.wait(n)
		l.report(n)
	default:
		l.report(0)
	}
}

func main() {
	l := &load{config: &tls.Config{ServerName: "kubernetes"}}
	flag.StringVar(&l.url, "url", "", "of the watch")
	flag.BoolVar(&l.http2, "http2", false, "over HTTP/2, many on one connection; else one connection for each")
	ca := flag.String("ca", "", "CA of the server")
	cert := flag.String("cert", "", "client certificate")
	key := flag.String("key", "", "its key")
	flag.Parse()
	pem, err := os.ReadFile(*ca)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l.config.RootCAs = x509.NewCertPool()
	l.config.RootCAs.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l.config.Certificates = []tls.Certificate{pair}
	l.config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	if l.http2 {
		l.shared = l.transport()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		l.command(in.Text())
	}
}
