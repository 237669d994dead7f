// Go that calls C built without frame pointers, which calls libc.
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
#include <stdlib.h>

__attribute__((noinline)) static int by_value(const void *a, const void *b)
{
	volatile char frame[40];

	frame[0] = 1;
	return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b) + frame[0] - 1;
}

__attribute__((noinline)) static int c_sort(unsigned seed)
{
	int v[2000];

	for (int i = 0; i < 2000; i++)
		v[i] = (int)((seed + (unsigned)i) * 2654435761u >> 8);
	qsort(v, 2000, sizeof(v[0]), by_value);
	return v[0];
}

__attribute__((noinline)) static int c_entry(unsigned seed)
{
	volatile char frame[100];

	frame[0] = 1;
	return c_sort(seed) + frame[0];
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

var stop atomic.Bool

//go:noinline
func callC(n int) int {
	return int(C.c_entry(C.uint(n)))
}

func work(done chan<- int) {
	sum := 0
	for i := 0; !stop.Load(); i++ {
		sum += callC(i)
	}
	done <- sum
}

func main() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	done := make(chan int)
	go work(done)
	go work(done)
	fmt.Printf("ready %d\n", os.Getpid())
	<-c
	stop.Store(true)
	<-done
	<-done
}
