// shares in Go: a plain function, a method, a closure on another goroutine.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The thread's own clock: the goroutine that reads it is locked to its thread.
func cpuNs() uint64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}

var sink uint64

func spin(until uint64) uint64 {
	for {
		x := sink
		for i := uint64(0); i < 20000; i++ {
			x = x*31 + i
		}
		sink = x
		if now := cpuNs(); now >= until {
			return now
		}
	}
}

type furnace struct{ heat int }

//go:noinline
func smelt(until uint64) uint64 { return spin(until) }

//go:noinline
func (f *furnace) blast(until uint64) uint64 { return spin(until) }

//go:noinline
func pour(f func(uint64) uint64, until uint64) uint64 { return f(until) }

type part struct {
	name  string
	share float64
	work  func(uint64) uint64
	spent uint64
}

func main() {
	var cpu float64
	if len(os.Args) > 1 {
		cpu, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	runtime.LockOSThread()
	f := &furnace{7}
	parts := []part{
		{"main.smelt", 0.50, smelt, 0},
		{"main.(*furnace).blast", 0.30, f.blast, 0},
		{"main.pour", 0.20, func(u uint64) uint64 { return pour(func(v uint64) uint64 { return spin(v) }, u) }, 0},
	}
	var stop int32
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	go func() { <-ch; atomic.StoreInt32(&stop, 1) }()
	fmt.Printf("ready %d\n", os.Getpid())

	start := cpuNs()
	now, seed := start, 88172645463325252^uint64(os.Getpid())
	for atomic.LoadInt32(&stop) == 0 && (cpu == 0 || float64(now-start) < cpu*1e9) {
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		behind := &parts[0]
		for i := range parts {
			if float64(parts[i].spent)/parts[i].share < float64(behind.spent)/behind.share {
				behind = &parts[i]
			}
		}
		end := behind.work(now + 50000 + seed%300000)
		behind.spent += end - now
		now = end
	}

	var sum uint64
	for _, p := range parts {
		sum += p.spent
	}
	fmt.Printf("{\"cpu_ns\": %d", sum)
	for _, p := range parts {
		fmt.Printf(", \"%s\": %.5f", p.name, float64(p.spent)/float64(sum))
	}
	fmt.Println("}")
}
