// garbage keeps a large tree alive and makes garbage beside it, so that its collector is busy most of the
// time. "garbage calm" has the same tree, and uses again what it has allocated once.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
)

type node struct {
	left, right *node
	data        [4]uint64
}

func tree(depth int) *node {
	if depth == 0 {
		return nil
	}
	return &node{left: tree(depth - 1), right: tree(depth - 1)}
}

func sum(n *node) uint64 {
	if n == nil {
		return 1
	}
	return n.data[0] + sum(n.left) + sum(n.right)
}

var kept *node
var total uint64

func main() {
	debug.SetGCPercent(10)
	kept = tree(18)
	fmt.Println("ready", os.Getpid())
	own := tree(12)
	for {
		if len(os.Args) < 2 {
			own = tree(12)
		}
		total += sum(own)
	}
}
