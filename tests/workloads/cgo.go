// cgo: Go that calls C built without frame pointers, which sorts, and calls back into Go.
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
#include <stdint.h>
#include <stdlib.h>

extern uint64_t goBack(uint64_t);

static __attribute__((noinline)) uint64_t c_leaf(uint64_t n)
{
	volatile uint64_t x = 0;
	for (uint64_t i = 0; i < n; i++)
		x += i * i;
	return x;
}

static __attribute__((noinline)) uint64_t c_middle(uint64_t n)
{
	volatile char room[n % 100 + 1]; // its frame is only known at run time
	room[0] = 1;
	return c_leaf(n) + room[0];
}

static int c_less(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void c_sort(void)
{
	int v[2000];
	for (int i = 0; i < 2000; i++)
		v[i] = (i * 7919) % 2003;
	qsort(v, 2000, sizeof(*v), c_less);
}

static __attribute__((noinline)) uint64_t c_back(uint64_t n)
{
	return goBack(n) * 3 + 1;
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var sink []byte

//export goBack
func goBack(n C.uint64_t) C.uint64_t {
	s := C.uint64_t(0)
	for i := C.uint64_t(0); i < n; i++ {
		s += i * i
	}
	sink = make([]byte, 1<<16)
	return s + C.c_leaf(n)
}

//go:noinline
func down() { C.c_middle(50000) }

//go:noinline
func sorting() { C.c_sort() }

//go:noinline
func andBack() { C.c_back(50000) }

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	for _, work := range []func(){down, sorting, andBack} {
		go func(work func()) {
			for {
				work()
			}
		}(work)
	}
	fmt.Printf("ready %d\n", os.Getpid())
	<-stop
}
