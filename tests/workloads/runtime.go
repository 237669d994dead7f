// runtime: what keeps Go's own runtime busy: assembly, the collector, channels, growing stacks,
// clocks, maps, signals; each on a goroutine of its own and in a function of that name.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type node struct{ left, right *node }

var sink interface{}

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

//go:noinline
func hashing() {
	b := make([]byte, 4096)
	for i := 0; i < 100; i++ {
		h := sha256.Sum256(b)
		b[i] = h[0]
	}
}

//go:noinline
func garbage() { sink = tree(12) }

//go:noinline
func channels() {
	c := make(chan int)
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go receive(c, &all)
	}
	for i := 0; i < 2000; i++ {
		c <- i
	}
	close(c)
	all.Wait()
}

func receive(c chan int, all *sync.WaitGroup) {
	for range c {
	}
	all.Done()
}

//go:noinline
func mapping() {
	m := map[string]int{}
	for i := 0; i < 2000; i++ {
		m[strings.Repeat("x", i%17)+strconv.Itoa(i)] += i
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	sink = keys
}

//go:noinline
func deep(n int) int {
	var a [64]int
	a[n%64] = n
	if n == 0 {
		return a[0]
	}
	return deep(n-1) + a[n%64]
}

//go:noinline
func growing() {
	done := make(chan int)
	for i := 0; i < 20; i++ {
		go func() { done <- deep(60) }()
		<-done
	}
}

//go:noinline
func clocks() {
	for i := 0; i < 5000; i++ {
		if time.Now().IsZero() {
			panic("no clock")
		}
	}
}

//go:noinline
func recovering() {
	for i := 0; i < 50; i++ {
		fault()
	}
}

//go:noinline
func fault() {
	defer func() { sink = recover() }()
	var n *node
	n.left = n
}

func main() {
	runtime.GOMAXPROCS(2)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	for _, work := range []func(){hashing, garbage, channels, mapping, growing, clocks, recovering} {
		go func(work func()) {
			for {
				work()
			}
		}(work)
	}
	fmt.Printf("ready %d\n", os.Getpid())
	<-stop
}
