// deep recurses to depths that change all the time, up to the number that its argument says.
package main

import (
	"fmt"
	"os"
	"strconv"
)

var sink uint64

//go:noinline
func burn(x uint64) uint64 {
	for i := 0; i < 200; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

//go:noinline
func even(n int, x uint64) uint64 {
	if n == 0 {
		return burn(x)
	}
	return odd(n-1, burn(x)) + 1
}

//go:noinline
func odd(n int, x uint64) uint64 {
	var room [9]uint64
	room[x%9] = x
	if n == 0 {
		return burn(x)
	}
	return even(n-1, x) + room[n%9]
}

//go:noinline
func run(most int) {
	for i := 1; ; i++ {
		sink += even(i*37%most, uint64(i))
	}
}

func main() {
	most, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Println("ready", os.Getpid())
	run(most)
}
