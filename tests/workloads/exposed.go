// exposed: a program with net/http/pprof that allocates, keeps memory, computes, waits for a lock and a
// channel; prints its port after its pid. With an argument, that is the port.
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"sync"
	"time"
)

var (
	kept   [][]byte
	sink   []byte
	number uint64
)

//go:noinline
func keepMemory() {
	for i := 0; i < 40; i++ {
		kept = append(kept, make([]byte, 1<<20))
	}
}

//go:noinline
func makeGarbage() {
	for i := 0; i < 200; i++ {
		sink = make([]byte, 64<<10)
	}
}

//go:noinline
func compute() {
	for end := time.Now().Add(30 * time.Millisecond); time.Now().Before(end); {
		for i := uint64(0); i < 10000; i++ {
			number += i * number
		}
	}
}

//go:noinline
func holdLock(l *sync.Mutex) {
	l.Lock()
	time.Sleep(2 * time.Millisecond)
	l.Unlock()
}

//go:noinline
func waitForNothing(c chan int) {
	<-c
}

func main() {
	port := "0"
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	keepMemory()
	never := make(chan int)
	for i := 0; i < 17; i++ {
		go waitForNothing(never)
	}
	lock := &sync.Mutex{}
	for i := 0; i < 2; i++ {
		go func() {
			for {
				holdLock(lock)
			}
		}()
	}
	go func() {
		for {
			compute()
			makeGarbage()
			time.Sleep(40 * time.Millisecond)
		}
	}()
	fmt.Println("ready", os.Getpid(), l.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(l, nil))
}
