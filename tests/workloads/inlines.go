// A loop around calls that the Go compiler inlines: grind <- fold <- mix.
package main

import (
	"fmt"
	"os"
)

func mix(x uint64) uint64  { return x*0x9e3779b97f4a7c15 ^ x>>29 ^ x%10007 }
func fold(x uint64) uint64 { return mix(mix(x) % 1000003) }

//go:noinline
func grind(n uint64) uint64 {
	for i := uint64(0); i < 1000000; i++ {
		n = fold(n + i)
	}
	return n
}

func main() {
	fmt.Printf("ready %d\n", os.Getpid())
	for n := uint64(1); ; {
		n = grind(n)
	}
}
