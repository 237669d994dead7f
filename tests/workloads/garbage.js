// Keeps a large tree alive and makes garbage beside it, as garbage.go does. "calm": it makes none.
'use strict'
process.title = 'garbage-js'

function tree (depth) {
  return depth === 0 ? null : { left: tree(depth - 1), right: tree(depth - 1), data: [depth] }
}

function sum (node) {
  return node === null ? 1 : node.data[0] + sum(node.left) + sum(node.right)
}

const calm = process.argv[2] === 'calm'
const kept = tree(calm ? 12 : 18)
let recent = [tree(12)]
let total = sum(kept)
console.log('ready', process.pid)
for (;;) {
  if (!calm) {
    for (let i = 0; i < 8; i++) recent.push(tree(12))
    if (recent.length > 64) recent = recent.slice(32)
  }
  total += sum(recent[0])
  if (total > 1e15) total = 0
}
