// web serve: answers each request after 2 ms of work; prints its port after its pid.
// web load URL RATE: asks RATE times a second (0: as fast as eight connections can), until it is killed.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

const connections = 8

func work() (n uint64) {
	for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); {
		for i := uint64(0); i < 1000; i++ {
			n += i * n
		}
	}
	return
}

func serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("ready", os.Getpid(), l.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "the answer is", work())
	})))
}

func load(url string, rate int) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	var ticks <-chan time.Time
	if rate > 0 {
		ticks = time.Tick(time.Second / time.Duration(rate))
	}
	for i := 0; i < connections; i++ {
		go func() {
			for {
				if ticks != nil {
					<-ticks
				}
				r, err := client.Get(url)
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		}()
	}
	fmt.Println("ready", os.Getpid())
	select {}
}

func main() {
	if os.Args[1] == "serve" {
		serve()
	}
	rate, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	load(os.Args[2], rate)
}
