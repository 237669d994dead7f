// An HTTP server that prints "port PORT" and "ready PID", and answers every request after 1 ms.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("port %d\nready %d\n", listener.Addr().(*net.TCPAddr).Port, os.Getpid())
	http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond)
		fmt.Fprintln(w, "ok")
	}))
}
