# Ruby that goes in and out of its own C: sorting with a block, regular expressions, hashes.
$stdout.sync = true
puts "ready #{$$}"

def recurse(n)
  n == 0 ? 0 : recurse(n - 1) + 1
end

trap("TERM") { exit! 0 }
loop do
  (0...2000).sort_by { |x| -x }
  ("some words " * 200).gsub(/(\w+) (\w+)/) { $2 + $1 }
  h = {}
  (0...2000).each { |x| h[x.to_s] = [x, x].map { |y| y + 1 } }
  (0...200).sum { |x| recurse(x % 50) }
end
