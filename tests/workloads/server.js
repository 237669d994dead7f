// Answers each request after 2 ms of work; prints its port after its pid.
'use strict'
const http = require('http')
const { performance } = require('perf_hooks')

function work () {
  let n = 0
  for (const end = performance.now() + 2; performance.now() < end;) {
    for (let i = 0; i < 1000; i++) n += i * n
  }
  return n
}

const server = http.createServer((request, response) => {
  response.end(JSON.stringify({ answer: work(), asked: request.url }))
})
server.listen(0, '127.0.0.1', () => console.log('ready', process.pid, server.address().port))
